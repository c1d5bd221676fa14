/* The page with timelines: who held what when, part by part. Places are per cents of the width, so that a timeline
 * grows with the page and with the zoom. */

const ROW = 14, GAP = 8, AXIS = 34, EVENTS = 200, COLOURS = 8;
const ms = (seconds) => (seconds * 1000).toFixed(1) + ' ms';
const symbols = { // what a mark looks like; a log may give it any kind, so nothing is inherited
    __proto__: null,
    killed: ['alarm', 'M-5 -5L5 5M-5 5L5 -5'], lost: ['alarm', 'M-5 -5L5 5M-5 5L5 -5'],
    refused: ['alarm solid', 'M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0M-3 -1v2h6v-2z'],
    frozen: ['solid', 'M-4 -5h3v10h-3zM1 -5h3v10h-3z'], wiped: ['alarm', 'M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0'],
    other: ['solid', 'M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0'],
};

function symbol(parent, kind, place, title) {
    const [style, path] = symbols[kind] || symbols.other;
    add(shape(parent, 'svg', {class: 'mark', ...place}, title), 'path', {class: style, d: path});
}

/* A mark may name a process as HOST or as HOST:PID. */
const isOf = (mark, process) => mark.process && (process + ':').startsWith(mark.process + ':');
/* What was done to a process or a node, not what became of its holds. */
const isDeed = (mark) => !mark.resource && !mark.jid;

/* --- one timeline ------------------------------------------------------------------------------------------------- */

/* Draws the part, and returns the names and heights of its rows. */
function timeline(svg, part) {
    const ends = part.lanes.flatMap((lane) => lane.bars.map((bar) => bar.to)), marks = part.marks;
    const to = [...ends, ...marks.map((mark) => mark.at)].reduce((last, at) => Math.max(last, at), part.from + 1e-6);
    const span = to - part.from, colours = new Map(part.processes.map(({name}, i) => [name, Math.min(i, COLOURS)]));
    const place = (at) => 100 * Math.min(Math.max((at - part.from) / span, 0), 1), x = (at) => place(at) + '%';
    const between = (from, to) => ({x: x(from), width: place(to) - place(from) + '%'});
    const since = (at) => (at - part.from).toFixed(3) + ' s', moment = (at) => `${since(at)} (${clock(at, 3)})`;
    const said = (texts, separator) => texts.filter((text) => text).join(separator);

    function markTitle({kind, process, node, resource, at, jid, text}) {
        const about = said([kind, process, node, resource], ' ') + ' at ' + moment(at);
        return said([said([about, jid && 'task ' + jid], ', '), text], ': ');
    }

    function barTitle(bar) {
        const who = bar.process === null ? 'several processes' : bar.process;
        const times = `${since(bar.from)} to ${since(bar.to)} (${((bar.to - bar.from) * 1000).toFixed(0)} ms) from ` +
            clock(bar.from, 3);
        if (bar.holds > 1 && bar.unusual)
            return `${who}: ${bar.holds} holds, ${bar.unusual} of them lost, refused, open or overlapping, ${times}`;
        if (bar.holds > 1) return `${who}: ${bar.holds} ${bar.unlocked ? 'runs without a lock' : 'holds'}, ${times}`;
        return said([`${who}: ${bar.class} ${bar.jid}`, bar.unlocked ? 'ran without a lock' : 'held', bar.fence &&
            'under token ' + bar.fence, bar.handed_over && 'handed over', times, 'waited' in bar && 'waited ' +
            ms(bar.waited), bar.lost && 'lock lost', bar.refused && 'write refused', bar.overlaps &&
            'while another was at it', bar.open && 'end not seen', bar.ending && 'ended as ' + bar.ending], ', ');
    }

    function drawMarks(parent, y, isHere) {
        for (const mark of marks.filter(isHere))
            symbol(parent, mark.kind, {x: x(mark.at), y: y + (GAP + ROW) / 2}, markTitle(mark));
    }

    function drawProcess({name, from = part.from, to: until = to}, y) {
        const middle = y + (GAP + ROW) / 2, own = marks.filter((mark) => isOf(mark, name));
        add(svg, 'line', {class: 'life', x1: x(from), x2: x(until), y1: middle, y2: middle});
        let frozen = null; // from each "frozen" to the next "resumed", or to the end
        for (const {kind, at} of [...own, {kind: 'resumed', at: to}]) {
            if (frozen !== null && kind === 'resumed')
                shape(svg, 'rect', {class: 'frozen', ...between(frozen, at), y: y + GAP / 2, height: ROW},
                      `${name} stood still from ${moment(frozen)} to ${moment(at)}`);
            frozen = kind === 'resumed' ? null : kind === 'frozen' && frozen === null ? at : frozen;
        }
        // a host's next process has the same name up to its pid: what was done before it came is not its own
        drawMarks(svg, y, (mark) => own.includes(mark) && isDeed(mark) && mark.kind !== 'resumed' && mark.at >= from &&
            mark.at <= until + 1);
    }

    function drawLane(lane, y) {
        const label = `${lane.resource}, ${lane.holds} holds`;
        const group = add(svg, 'g', {class: 'lane', tabindex: 0, role: 'group', 'aria-label': label});
        for (const bar of lane.bars) {
            const box = {...between(bar.from, bar.to), y: y + GAP / 2 + bar.row * ROW};
            const colour = 'bar p' + (colours.get(bar.process) ?? COLOURS), isAstray = bar.lost || bar.open;
            const style = said([colour, bar.unlocked && 'unlocked', (bar.overlaps || bar.unusual) && 'overlapping',
                                isAstray && 'astray'], ' ');
            shape(group, 'rect', {class: style, ...box, height: ROW - 3}, barTitle(bar));
            if (bar.handed_over) add(group, 'rect', {class: 'handed', ...box, height: 2.5});
        }
        drawMarks(group, y, (mark) => mark.resource === lane.resource);
    }

    const hasNodes = marks.some((mark) => mark.node), rows = [
        ['', AXIS, () => {}],
        ...part.processes.map((process) => [process.name, ROW + GAP, (y) => drawProcess(process, y)]),
        ...hasNodes ? [['nodes', ROW + GAP, (y) => drawMarks(svg, y, (mark) => mark.node)]] : [],
        ...part.lanes.map((lane) => [lane.resource, lane.rows * ROW + GAP, (y) => drawLane(lane, y)])];
    const height = rows.reduce((sum, row) => sum + row[1], 0), grid = add(svg, 'g');
    svg.setAttribute('height', height);
    for (const mark of marks.filter(isDeed))
        shape(svg, 'line', {class: 'moment', x1: x(mark.at), x2: x(mark.at), y1: AXIS, y2: height}, markTitle(mark));
    rows.reduce((y, [, tall, draw]) => (draw(y), y + tall), 0);
    fit(svg, (width) => { // as many ticks as there is room for
        const step = roundUp(span / Math.max(Math.floor(width / 90), 1));
        const digits = Math.min(Math.max(-Math.floor(Math.log10(step)), 0), 3);
        grid.replaceChildren();
        for (let since = 0; since <= span; since += step) {
            const at = x(part.from + since);
            add(grid, 'line', {class: 'grid', x1: at, x2: at, y1: 0, y2: height});
            if (width * (1 - since / span) < 70) continue; // it would be cut
            add(grid, 'text', {x: at, dx: 3, y: 13}, Number(since.toPrecision(6)) + ' s');
            add(grid, 'text', {x: at, dx: 3, y: 26}, clock(part.from + since, digits));
        }
    });
    return rows;
}

/* What is pointed at is told; the arrow keys go from bar to bar; + and - zoom. */
function steer(section, svg, about) {
    const scroll = svg.parentNode;
    let shown = null, scale = 1;
    const show = (thing) => {
        const title = thing && thing.querySelector('title');
        if (!title) return;
        if (shown) shown.classList.remove('selected');
        shown = thing;
        shown.classList.add('selected');
        about.textContent = title.textContent;
    };
    const zoom = (factor) => {
        const middle = (scroll.scrollLeft + scroll.clientWidth / 2) / scroll.scrollWidth;
        scale = Math.min(64, Math.max(1, scale * factor));
        svg.style.width = 100 * scale + '%';
        scroll.scrollLeft = middle * scroll.scrollWidth - scroll.clientWidth / 2;
    };
    for (const event of ['mouseover', 'click'])
        svg.addEventListener(event, ({target}) => show(target.closest('rect,line,.mark')));
    for (const button of section.querySelectorAll('button'))
        button.addEventListener('click', () => zoom(Number(button.value)));
    section.addEventListener('keydown', (event) => {
        const lane = event.target.closest('.lane'), key = event.key;
        if (key === '+' || key === '-') zoom(key === '+' ? 2 : 0.5);
        else if (lane && ['ArrowLeft', 'ArrowRight', 'Home', 'End'].includes(key)) {
            const bars = [...lane.querySelectorAll('.bar')], at = bars.indexOf(shown), last = bars.length - 1;
            const next = {Home: 0, End: last, ArrowRight: Math.min(at + 1, last), ArrowLeft: Math.max(at - 1, 0)}[key];
            show(bars[next]);
            if (bars[next]) bars[next].scrollIntoView({block: 'nearest', inline: 'nearest'});
        } else return;
        event.preventDefault();
    });
}

/* --- a part ------------------------------------------------------------------------------------------------------- */

function keys(section, {processes, lanes}) {
    const bar = (style, height) => (svg) => {
        add(svg, 'rect', {class: 'bar p0 ' + style, x: -5, y: -5, width: 10, height: 10});
        if (height) add(svg, 'rect', {class: 'handed', x: -5, y: -5, width: 10, height});
    };
    const sign = (kind) => (svg) => symbol(svg, kind, {});
    const colours = processes.slice(0, COLOURS).map(({name}, i) => ['p' + i, name]);
    const hasGrey = processes.length > COLOURS || lanes.some((lane) => lane.bars.some((bar) => bar.process === null));
    legend(section, hasGrey ? [...colours, ['p8', 'others, or several']] : colours);
    legend(section, [[bar('', 3), 'handed over'], [bar('unlocked'), 'without a lock'],
                     [bar('overlapping'), 'overlaps: while another was at it'],
                     [bar('astray'), 'its lock was lost, or nobody saw its end'], [sign('killed'), 'killed, or lost'],
                     [sign('refused'), 'refused'], [sign('frozen'), 'stood still'], [sign('wiped'), 'wiped'],
                     [sign('other'), 'anything else']]);
}

function sums(section, {rows, total, meaning}) {
    add(section, 'h3', {}, 'By class and resource');
    table(section, [
        ['class', 'class'], ['resource', 'resource'], ['holds', 'holds', count],
        ['held', 'held', (held) => held.toFixed(2) + ' s'], ['wait p50', 'wait_p50', ms], ['wait p99', 'wait_p99', ms],
        ['handed over', 'handed_over', count], ['parked', 'parked', (n) => n === null ? '-' : count(n)], ['skipped', 'skipped', count],
        ['lost', 'lost', count, some], ['refused', 'refused', count], ['overlaps', 'overlaps', count, some],
    ], [...rows, {...total, class: 'all', resource: ''}]);
    if (meaning) add(section, 'p', {}, meaning);
    if (total.without_lock) add(section, 'p', 'soft', `${count(total.without_lock)} of these ran without a lock.`);
}

function events(section, {marks, from}) {
    if (!marks.length) return;
    add(section, 'h3', {}, 'What happened');
    table(section, [
        ['at', ({at}) => at - from, (since) => since.toFixed(3) + ' s'], ['time of day', ({at}) => clock(at, 3)],
        ['what', 'kind'], ['process or node', ({process, node}) => process || node], ['resource', 'resource'],
        ['task', 'jid'], ['', 'text']], marks.slice(0, EVENTS));
    if (marks.length > EVENTS) add(section, 'p', 'soft', `${marks.length - EVENTS} more are not shown.`);
}

function partDraw(main, part) {
    const section = add(main, 'section');
    add(section, 'h2', {}, part.title || 'Who held what when');
    const tools = (add(section, 'p', 'soft', `0 s is ${date(part.from)}.`), add(section, 'p', 'tools'));
    for (const [name, value] of [['closer', 2], ['farther', 0.5], ['all', 0]]) add(tools, 'button', {value}, name);
    add(tools, 'span', 'soft', 'At a lane, the arrow keys go from bar to bar; + and - zoom.');
    keys(section, part);
    const plot = add(section, 'div', 'plot'), names = add(plot, 'div', 'names');
    const svg = add(add(plot, 'div', 'scroll'), 'svg', {role: 'group', 'aria-label': 'who held what when'});
    for (const [name, height] of timeline(svg, part))
        add(add(names, 'div', {style: `height:${height}px;line-height:${height}px`, title: name}), 'bdi', {}, name);
    steer(section, svg, add(section, 'output', {class: 'about', 'aria-live': 'polite'}, '\u00a0'));
    if (part.note) add(section, 'p', 'soft', part.note);
    sums(section, part);
    events(section, part);
}

/* --- the page ----------------------------------------------------------------------------------------------------- */

/* What was found out, part beside part; of several facts of one name the last. */
function facts(main, parts) {
    const known = parts.map((part) => new Map(part.facts.map((fact) => [fact.name, fact])));
    const names = new Set(known.flatMap((facts) => [...facts.keys()])), sign = {good: '✓ ', bad: '✗ '};
    const text = (fact) => fact ? (sign[fact.tone] || '') + fact.value : '', tone = (fact) => fact ? fact.tone : '';
    const columns = parts.map(({title}, i) => [title, (name) => text(known[i].get(name)), undefined,
                                               (value, name) => tone(known[i].get(name))]);
    if (names.size) table(main, [['', (name) => name, undefined, () => 'soft'], ...columns], names);
}

function draw({about, parts, parts_left_out: more}, main) {
    add(main, 'p', 'soft', about);
    facts(main, parts);
    for (const part of parts) if (part.lanes.length || part.marks.length || part.rows.length) partDraw(main, part);
    if (more) add(main, 'p', 'soft', `${more} more parts are not shown.`);
    glossary(main, ['handed over', 'parked', 'skipped', 'lost', 'refused', 'overlaps']);
}
