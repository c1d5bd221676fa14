/* The page of a dry run: the plain answer in big words, plots, and tables with the details. The result is what --json
 * prints, its lists bounded. What is not known is left out. */

const OPEN_ROWS = 20, FIGURE_ROWS = 24, HOST_ROWS = 100, ROW = 17, HEIGHT = 230;
const full = (part) => part >= 0.9 ? 'bad' : '', same = (text) => text;
/* A column of what is known of some rows only. */
const partly = (title, isKnown, member, format) => [title, (row) => isKnown(row) ? row[member] : null, format];
/* A wait that grows for as long as the load lasts has no mean. */
const expectedWait = ({expected}) => !expected.known ? null : expected.wait < 0 ? 'grows' : time(expected.wait);
const expectedRate = ({expected}) => expected.known ? expected.throughput : null;

/* The y axis of lines: name, style, points. */
const axisOf = (lines, options) =>
    axis(lines.flatMap(([, , points]) => points.map((point) => point[1])), {...options, zero: !options.log});

/* --- how long it took --------------------------------------------------------------------------------------------- */

/* The steps of lib/base/histogram.c, eight in a bar. */
function barOf(us) {
    const shift = Math.max(Math.floor(Math.log2(us)) - 5, 0);
    return us < 32 ? Math.floor(us / 8) : Math.floor(((shift + 1) * 32 + Math.floor(us / 2 ** shift) - 32) / 8);
}

function barTop(bar) {
    const step = bar * 8 + 7;
    return (step < 32 ? step : (33 + step % 32) * 2 ** (Math.floor(step / 32) - 1) - 1) / 1e6;
}

/* A bar is as high as the share of all in it, by how often it doubles from its bottom to its top: so bars of different
 * widths can be compared. */
function histogram(parent, title, style, {histogram, count: all, ...spread}) {
    if (!histogram || !all) return;
    const counts = new Map(), marks = [['p50', 'p50'], ['p90', 'p90'], ['p99', 'p99'], ['p99.9', 'p999']];
    for (const [top, number] of histogram.counts) counts.set(barOf(top), (counts.get(barOf(top)) || 0) + number);
    const bars = [...counts].map(([bar, number]) => {
        const from = bar > 0 ? barTop(bar - 1) : 1e-6, to = barTop(bar), height = number / all / Math.log2(to / from);
        return {from, to, height, title: `${time(from)} to ${time(to)}: ${share(number / all)} (${count(number)})`};
    });
    figure(parent, title, HEIGHT, [], (svg, width) => {
        const x = axis(bars.flatMap((bar) => [bar.from, bar.to]), {log: true, unit: 'seconds'});
        const y = axis([1.35 * Math.max(...bars.map((bar) => bar.height))], {zero: true, label: 'how often'});
        const plot = frame(svg, width, HEIGHT, x, y, 14), {X, Y, top, bottom} = plot;
        for (const bar of bars) box(plot, 'column ' + style, bar.from, bar.to, Y(bar.height), bottom, bar.title);
        for (const [, member] of marks)
            add(svg, 'line', {class: 'at', x1: X(spread[member]), x2: X(spread[member]), y1: top, y2: bottom});
        for (const [row, [name, member]] of marks.entries()) { // each a row lower, so that they do not touch
            const text = `${name} ${time(spread[member])}`, at = X(spread[member]);
            const place = at + 8 + text.length * CHARACTER > width ? {x: at - 4, 'text-anchor': 'end'} : {x: at + 4};
            add(svg, 'text', {class: 'on', y: top + 10 + 12 * row, ...place}, text);
        }
    });
}

function times(section, result) {
    const all = [['Wait for a lock, from the push', 'p0', 'wait'], ['Hold', 'p2', 'hold'],
                 ['Acquiring from the lock nodes', 'p3', 'acquire'], ['Extending a lock', 'p4', 'extend']];
    const plots = add(section, 'div', 'plots'), isKnown = (row) => row.count > 0;
    const column = (title, name) => partly(title, isKnown, name, time);
    for (const [title, style, member] of all) histogram(plots, title, style, result[member]);
    table(section, [['how long', 'title'], ['count', 'count', count], column('mean', 'mean'),
                    partly('+-', (row) => row.mean_error > 0, 'mean_error', time), column('p50', 'p50'),
                    column('p90', 'p90'), column('p99', 'p99'), column('p99.9', 'p999'), column('max', 'max')],
          all.map(([title, , member]) => ({title, ...result[member]})));
}

/* --- second by second --------------------------------------------------------------------------------------------- */

function course(section, {seconds, faults, plan, began}, about) {
    const at = (moment) => clock(Date.parse(began) / 1000 + moment), plots = add(section, 'div', 'plots');
    const known = faults.map((fault, i) => ({...fault, about: about[i] + (fault.done ? '' : ' (was not done)')}));
    const done = known.filter((fault) => fault.done);
    const draw = (title, options, ...all) => {
        const value = (number) => options.log && !(number > 0) ? null : number; // no time at all: nothing happened
        const lines = all.map(([name, member, style]) =>
            [name, style, seconds.map((second) => [second.at, value(second[member])])])
            .filter(([, , points]) => points.some((point) => point[1] !== null));
        const keys = lines.map(([name, style]) => ['line ' + style, name]).concat(done.length ? [['p9', 'fault']] : []);
        figure(plots, title, HEIGHT + 12, keys, (svg, width) => {
            const x = axis([0, ...seconds.map((second) => second.at)], {unit: 'seconds', exact: true, clock: at},
                           Math.max(Math.floor(width / 80), 1));
            const plot = frame(svg, width, HEIGHT + 12, x, axisOf(lines, options)), {top, bottom} = plot;
            if (plan.warm_up > 0) box(plot, 'span', 0, plan.warm_up, top, bottom, 'warm-up: not measured');
            for (const fault of done)
                box(plot, 'span fault', fault.at, fault.at + fault.lasts_ns / 1e9, top, bottom,
                    `${time(fault.at)}, ${at(fault.at)}: ${fault.about}. ${fault.text}`);
            for (const [name, style, points] of lines) line(plot, style, name, points, seconds.length <= 60);
        });
    };
    if (seconds.length > 1) {
        const long = {log: true, unit: 'seconds'};
        draw('Throughput', {label: 'a second'}, ['pushed', 'pushed', 'p8'], ['ended', 'ended', 'p0'],
             ['parked', 'parked', 'p1'], ['handed over', 'handed_over', 'p2']);
        draw('Wait for a lock', long, ['p50', 'wait_p50', 'p0'], ['p99', 'wait_p99', 'p1']);
        draw('Tasks that wait', {}, ['waiting tasks', 'waiting', 'p3']);
        draw('Runners busy', {unit: 'share'}, ['share of the time that tasks took of the runners', 'busy', 'p2']);
        draw('Rounds over the lock nodes', long, ['acquiring p50', 'acquire_p50', 'p4'],
             ['acquiring p99', 'acquire_p99', 'p3'], ['extending p99', 'extend_p99', 'p5']);
        draw('Holds', long, ['p50', 'hold_p50', 'p0'], ['p99', 'hold_p99', 'p1']);
    }
    if (known.length)
        table(section, [['at', 'at', time], ['time of day', (fault) => at(fault.at), same], ['what was done', 'about'],
                        ['what could be seen of it', 'text']], known);
}

/* --- resources ---------------------------------------------------------------------------------------------------- */

/* Rows with a name at the left of each. */
function rows(parent, title, x, keys, rows, draw) {
    const height = 34 + rows.length * ROW;
    if (rows.length) figure(parent, title, height, keys, (svg, width) => {
        const left = Math.min(Math.round(width * 0.3), 150);
        const plot = frame(svg, width, height, axis(x.values, x), {}, left);
        for (const [i, row] of rows.entries()) {
            const top = 10 + i * ROW, most = Math.floor(left / CHARACTER) - 1;
            const name = row.name.length > most ? '…' + row.name.slice(1 - most) : row.name; // they differ at the end
            shape(svg, 'text', {class: 'row', x: left - 6, y: top + 12, 'text-anchor': 'end'}, row.name, name);
            draw(plot, row, top + 2, top + ROW - 2);
        }
    });
}

/* Between two resources the formula goes as u / (1 - u), not straight. */
function curve(resources) {
    const odds = (part) => part / (1 - part);
    return resources.flatMap(({expected: to}, i) => {
        const from = resources[Math.max(i - 1, 0)].expected, [first, last] = [from.utilisation, to.utilisation];
        if (last >= 1 || last - first <= 0.01) return [[last, to.wait]];
        return [...Array(10).keys()].map((step) => {
            const at = first + (last - first) * (step + 1) / 10;
            return [at, from.wait + (to.wait - from.wait) * (odds(at) - odds(first)) / (odds(last) - odds(first))];
        });
    });
}

function resourceFigures(section, resources) {
    const plots = add(section, 'div', 'plots'), hottest = resources.slice(0, FIGURE_ROWS);
    rows(plots, 'Share of the time that a resource is held, the hottest first', {unit: 'share', values: [0, 1]},
         [['p0', 'held'], ['p1', '70 % or more'], ['p9', '90 % or more'], ['p3', 'expected']], hottest,
         (plot, {name, share_held: held, load, wait_mean: wait, expected}, top, bottom) => {
             box(plot, 'column ' + (held >= 0.9 ? 'p9' : held >= 0.7 ? 'p1' : 'p0'), 0, held, top, bottom,
                 `${name}: held ${share(held)}, ${rate(load)} tasks/s, mean wait ${time(wait)}`);
             const at = plot.X(expected.utilisation), place = {x1: at, x2: at, y1: top - 2, y2: bottom + 2};
             if (expected.known) shape(plot.svg, 'line', {class: 'tick p3', ...place}, 'expected');
         });
    const modelled = resources.filter(({expected, wait_mean}) => expected.known && expected.wait > 0 && wait_mean > 0)
        .sort((one, other) => one.expected.utilisation - other.expected.utilisation);
    const height = Math.max(34 + hottest.length * ROW, HEIGHT);
    const keys = [['dashed p1', 'expected by the formula'], ['p0', 'measured, with its 95 % interval']];
    if (modelled.length) figure(plots, 'Mean wait for a resource against how much of it is used', height, keys,
        (svg, width) => {
            const ends = (row) => [row.expected.wait, row.wait_mean - row.wait_error, row.wait_mean + row.wait_error];
            const x = axis(modelled.map((row) => row.expected.utilisation),
                           {unit: 'share', zero: true, label: 'utilisation'});
            const plot = frame(svg, width, height, x, axis(modelled.flatMap(ends), {unit: 'seconds', log: true}));
            line(plot, 'dashed p1', 'expected by the formula', curve(modelled));
            for (const {name, expected, wait_mean: wait, wait_error: error} of modelled) {
                const at = plot.X(expected.utilisation), from = plot.Y(wait - error), to = plot.Y(wait + error);
                if (error > 0) add(svg, 'line', {class: 'whisker p0', x1: at, x2: at, y1: from, y2: to});
                dot(plot, 'p0', expected.utilisation, wait, `${name}: mean wait ${time(wait)}, give or take ` +
                    `${time(error)}, expected ${time(expected.wait)} at ${share(expected.utilisation)}`);
            }
        });
}

function resources(section, {resources: all, resources_left_out: leftOut, shadowed, formula}) {
    if (!all.length) return;
    resourceFigures(section, all);
    if (shadowed) prose(section, 'p', {}, `The shadow ${shadowed}.`);
    if (formula) prose(section, 'p', 'soft', `Expected: ${formula}.`);
    const wasHeld = (row) => row.held > 0;
    const columns = [
        ['resource', 'name'], ['tasks/s', 'load', rate], ['ended/s', 'throughput', rate],
        ['expected', expectedRate, rate], ['held', 'share_held', share, full], ['waiting', 'waiters', rate],
        ['at most', 'waiters_max', count], partly('wait', wasHeld, 'wait_mean', time),
        partly('+-', (row) => row.wait_error > 0, 'wait_error', time),
        ['expected', expectedWait, same], partly('p99', wasHeld, 'wait_p99', time),
        partly('hold', wasHeld, 'hold_mean', time), partly('changeover', (row) => row.changeovers > 0, 'changeover_mean', time),
        ['parked', 'parks', count], ['handed over', 'hand_overs', count], ['refusals', 'refusals', count],
        ['lost', 'lost', count, some], ['overlaps', 'overlaps', count, some]];
    table(section, columns, all.slice(0, OPEN_ROWS));
    if (all.length > OPEN_ROWS) {
        const rest = add(section, 'details');
        add(rest, 'summary', {}, `${all.length - OPEN_ROWS} more`);
        table(rest, columns, all.slice(OPEN_ROWS));
    }
    if (leftOut) add(section, 'p', 'soft', `${count(leftOut)} resources with less load are not shown.`);
}

/* --- nodes and hosts ---------------------------------------------------------------------------------------------- */

function nodes(section, {nodes}) {
    if (!nodes.length) return;
    const plots = add(section, 'div', 'plots');
    const wasHeard = (node) => node.latency.count > 0, heard = nodes.filter(wasHeard);
    const parts = [['granted', 'granted', 'p2'], ['refused', 'refused', 'p1'], ['errors', 'errors', 'p9'],
                   ['no answer', 'timeouts', 'p3']];
    const answers = (node) => parts.reduce((sum, [, member]) => sum + node[member], 0);
    rows(plots, 'How fast the nodes answer',
         {log: true, unit: 'seconds', values: heard.flatMap((node) => [node.latency.p50, node.latency.p999])},
         [['p4', 'p50 to p90'], ['p0', 'to p99'], ['p3', 'to p99.9']], heard,
         (plot, {latency: {p50, p90, p99, p999}}, top, bottom) => {
             for (const [style, from, to] of [['p4', p50, p90], ['p0', p90, p99], ['p3', p99, p999]])
                 box(plot, 'column ' + style, from, to, top, bottom,
                     `p50 ${time(p50)}, p90 ${time(p90)}, p99 ${time(p99)}, p99.9 ${time(p999)}`);
         });
    rows(plots, 'What the lock nodes answered', {unit: 'share', values: [0, 1]},
         [['p2', 'granted'], ['p1', 'refused: another had it'], ['p9', 'errors'], ['p3', 'no answer in time']],
         nodes.filter(answers), (plot, node, top, bottom) => {
             let from = 0;
             for (const [name, member, style] of parts.filter(([, member]) => node[member])) {
                 const part = node[member] / answers(node), title = `${name}: ${count(node[member])} (${share(part)})`;
                 box(plot, 'column ' + style, from, from += part, top, bottom, title);
             }
         });
    const latency = (name) => [name, (node) => wasHeard(node) ? node.latency[name] : null, time];
    table(section, [
        ['node', 'name'], ['for', (node) => node.queue_node ? 'queues' : 'locks'], ['address', 'address'],
        ['asked', 'requests', count], ['granted', 'granted', count], ['refused', 'refused', count],
        ['errors', 'errors', count, some], ['silent', 'timeouts', count, some], ['split', 'split_votes', count],
        latency('p50'), latency('p99'), latency('max'), ['sent', 'commands_sent', count],
        ['counted', 'commands_counted', count], ['cpu', 'cpu_share', share, full],
        ['keys left', 'keys_at_end', count, some]], nodes);
    add(section, 'p', 'soft', 'Refused: another had the lock. Silent: did not answer in time. Split: the nodes said ' +
        'different things. Sent: commands that we know of; counted: by the node itself.');
}

function hosts(section, {hosts}) {
    if (hosts.length)
        table(section, [['host', 'name'], ['processes', 'processes', count], ['threads each', 'threads', count],
                        ['processor', 'cpu_share', share], ['records lost', 'records_lost', count, some]],
              hosts.slice(0, HOST_ROWS));
}

/* --- what if ------------------------------------------------------------------------------------------------------ */

function points(section, {what_if: all}) {
    if (!all.length) return;
    const sorted = [...all].sort((one, other) => one.threads - other.threads), plots = add(section, 'div', 'plots');
    const ticks = sorted.map((point) => point.threads);
    const x = axis(ticks, {log: true, ticks, label: 'threads of each process'});
    const draw = (title, options, ...lines) => {
        const drawn = lines.map(([name, style, get]) => [name, style, sorted.map((point) =>
            [point.threads, get(point) > 0 ? get(point) : null])]);
        const y = axisOf(drawn, options);
        const keys = lines.map(([name, style]) => [style, name]);
        figure(plots, title, HEIGHT + 12, keys, (svg, width) => {
            const plot = frame(svg, width, HEIGHT + 12, x, y);
            for (const [name, style, points] of drawn) line(plot, style, name, points, !style.includes('dashed'));
        });
    };
    draw('Throughput with more or fewer threads', {label: 'tasks/s'},
         ['measured', 'line p0', (point) => point.throughput], ['expected', 'dashed p1', expectedRate]);
    draw('Wait with more or fewer threads', {unit: 'seconds', log: true}, ['p99', 'line p3', (point) => point.wait_p99],
         ['mean', 'line p0', (point) => point.wait_mean],
         ['mean expected', 'dashed p1', ({expected}) => expected.known ? expected.wait : null]);
    table(section, [['threads', 'threads', count], ['processes', 'processes', count], ['tasks/s', 'throughput', rate],
                    ['expected', expectedRate, rate], ['wait', 'wait_mean', time], ['expected', expectedWait, same],
                    ['p99', 'wait_p99', time], ['runners busy', 'share_busy', share, full]], all);
}

/* --- the page ----------------------------------------------------------------------------------------------------- */

function totals(section, result) {
    const all = [
        ['pushed', 'pushed', ''], ['ended', 'ended', 'for good'], ['done', 'done', ''],
        ['failed', 'failed', 'and are retried, or have no retry'], ['dead', 'dead', 'failed too often, or could not run'],
        ['parked', 'parked', 'waited in the list of a resource'], ['skipped', 'skipped', ''], ['dropped', 'dropped', ''],
        ['given back', 'given_back', 'claimed and not begun'],
        ['ended twice', 'twice', 'taken over from a worker that was not dead'],
        ['left', 'left', 'had not ended when the run did'], ['locks lost', 'lost', 'while a task held them'],
        ['overlaps', 'overlaps', 'two tasks at one resource at a time, as the overlap detector saw'],
        ['unfenced overlaps', 'overlaps_unfenced', 'of these, what no token would have told'],
        ['fence refusals', 'fence_refusals', 'late writes that a store would refuse which checks the token']];
    const bad = ['dead', 'twice', 'lost', 'overlaps', 'overlaps_unfenced'];
    const classOf = (number, [, member]) => bad.includes(member) ? some(number) : '';
    table(section, [['tasks', 0], ['', ([, member]) => result[member], count, classOf], ['', 2]], all);
}

function tiles(parent, result) {
    const all = add(parent, 'div', 'tiles'), {wait, expected, headroom, lost, overlaps} = result;
    const tile = (number, name, isBad) => {
        const one = add(all, 'div', isBad ? 'tile bad' : 'tile');
        add(one, 'b', {}, number), add(one, 'span', {}, name);
    };
    tile(rate(result.throughput) + '/s', 'tasks that ended');
    if (wait.count) tile(time(wait.p50), 'wait, p50'), tile(time(wait.p99), 'wait, p99');
    if (wait.count && expected.known)
        tile(time(wait.mean), `mean wait; expected ${expected.wait < 0 ? 'to grow' : time(expected.wait)}`);
    tile(share(result.utilisation), 'runners busy', result.utilisation >= 0.9);
    if (headroom > 0) tile('× ' + rate(headroom), 'load until it is full', headroom < 1);
    tile(rate(result.tries_per_hold), 'tries a hold');
    tile(rate(result.commands_per_hold), 'commands a hold and node');
    tile(`${count(lost)} / ${count(overlaps)}`, 'locks lost / overlaps', lost + overlaps > 0);
}

function answer(main, {tone, about, result}) {
    const began = date(Date.parse(result.began) / 1000);
    prose(main, 'p', 'answer tone-' + tone, result.answer || 'Nothing was measured, so nothing can be said.');
    const list = add(main, 'ul', 'advice');
    for (const advice of result.advice) prose(list, 'li', {}, advice);
    if (result.crashed_checks)
        prose(main, 'p', 'bad', `The check() of arguments crashed in ${result.crashed_checks}: in production each ` +
            'takes a worker down.');
    prose(main, 'p', 'soft', `Dry run ${result.plan.run || result.plan.id} with holdfast ${result.version}, begun at ${began}: ` +
        `${about}. Measured for ${time(result.measured_for)}.` +
        (result.interrupted ? ' It was interrupted: this is the part until then.' : '') +
        (result.drained ? '' : ' When it ended, tasks were left.'));
}

function itself(section, {overhead_share: part, observation_ns: each}, command) {
    add(section, 'p', {}, `Pushing and counting took ${share(part)} of one processor; a task took ` +
        `${time(each / 1e9)} longer because it was observed.`);
    add(section, 'p', {}, 'To do it again, with the same load:');
    add(add(section, 'p'), 'code', {}, command);
}

function draw(data, main) {
    const sections = [['How long it took', times], ['Over time', course, data.faults], ['Resources', resources],
                      ['What if', points], ['Nodes', nodes], ['Hosts', hosts], ['Totals', totals],
                      ['The dry run itself', itself, data.command]];
    answer(main, data);
    tiles(main, data.result);
    for (const [title, fill, more] of sections) {
        const section = add(main, 'section');
        add(section, 'h2', {}, title);
        fill(section, data.result, more);
        if (section.textContent === title) section.remove();
    }
    glossary(main, ['handed over', 'parked', 'skipped', 'lost', 'refused', 'overlaps']);
}
