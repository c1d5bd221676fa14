/* The page of `holdfast serve`. The state comes by server-sent events and is drawn anew each time; what somebody
 * searches for or changes is asked for when it is wanted. The part behind '#' says what is shown. */
'use strict';

const site = {prefix: '', session: {}, state: null, age: 0, history: [], heard: 0, view: null};
const states = {retry: 'Retries', dead: 'Dead', schedule: 'Scheduled', claims: 'Claims', queue: 'Queue'};

Object.assign(words, {
    'busy': 'Threads that run a task, of all threads of the process.',
    'lag': 'How long the oldest task of the queue has waited.',
    'waiters': 'Tasks that wait for this lock.',
    'votes': 'Whether the node counts for majorities: one that may have forgotten locks does not, until they have expired.',
    'offset': 'How far the clock of the node is from that of this machine.',
});

/* --- asking the server -------------------------------------------------------------------------------------------- */

async function ask(path, options = {}) {
    try {
        const answer = await fetch(site.prefix + path, {credentials: 'same-origin', ...options});
        if (answer.status === 401) throw new Error('this needs a login');
        if (!answer.ok) throw new Error((await answer.text()).trim());
        return answer;
    } catch (error) {
        throw error instanceof TypeError ? new Error('`holdfast serve` does not answer') : error;
    }
}

const post = (path, fields) => ask(path, {
    method: 'POST', body: new URLSearchParams(fields), headers: {'X-Holdfast-Proof': site.session.proof || ''}});

/* A command of ours: its JSON, or an error with what it said. */
async function command(answer) {
    const said = await (await answer).json();
    if (said.answer === null) throw new Error(said.error.trim() || `exit code ${said.exit_code}`);
    return said;
}
const search = (name, fields) => command(ask(`/api/search/${name}?${new URLSearchParams(fields)}`));

/* --- elements ----------------------------------------------------------------------------------------------------- */

const link = (parent, where, text) => add(parent, 'a', {href: '#' + where.map(encodeURIComponent).join('/')}, text);

function button(parent, text, act, label) {
    const node = add(parent, 'button', {type: 'button', 'aria-label': label || text}, text);
    node.addEventListener('click', act);
    return node;
}

/* `columns`: title; what a cell has: text, or a function of the row and the cell that fills it; 'n' for numbers. */
function grid(parent, name, columns, rows, nothing) {
    if (rows.length === 0) return add(parent, 'p', 'soft', nothing);
    const all = add(add(parent, 'div', {class: 'wide', tabindex: '0', role: 'region', 'aria-label': name}), 'table');
    const titles = add(add(all, 'thead'), 'tr'), body = add(all, 'tbody');
    for (const [title, , style] of columns)
        add(titles, 'th', {scope: 'col', class: style || '', title: words[title.toLowerCase()] || ''}, title);
    for (const row of rows) {
        const line = add(body, 'tr');
        for (const [, value, style] of columns) {
            const cell = add(line, 'td', style || '');
            const text = value(row, cell);
            if (text !== undefined) cell.append(text === null || text === '' ? '-' : clean(text, 300));
        }
    }
    return all;
}

const number = (value) => value === null || value === undefined ? null : count(value);
const span = (seconds) => seconds === null || seconds === undefined ? null : time(seconds);
const since = (at) => at ? time(Math.max(site.state.time - at, 0)) : null;

function tile(parent, value, name, isBad) {
    const box = add(parent, 'div', isBad ? 'tile bad' : 'tile');
    add(box, 'b', {}, value === null || value === undefined ? '-' : value);
    add(box, 'span', {}, name);
}

/* Says what came of something, for eyes and ears. */
function say(text, isBad) {
    const element = document.querySelector('#said');
    element.textContent = clean(text);
    element.className = isBad ? 'bad' : 'good';
}

/* --- changing ----------------------------------------------------------------------------------------------------- */

const questions = {
    pause: 'Pause the queue? No worker takes tasks from it until it is resumed.',
    resume: 'Resume the queue?',
    quiet: 'Quiet the process? It finishes what it runs and takes nothing new, for ever.',
    stop: 'Stop the process?',
    retry: 'Retry the task now?',
    bury: 'Bury the task? It is dead then, and can be retried.',
    delete: 'Delete the task? It is gone then.',
    cancel: 'Cancel the task, wherever it is?',
    unlock: 'Take the lock away from whoever holds it? A holder that does not hear of it goes on beside the next one.',
};

/* A dialogue: resolves with the form's fields, or null. */
function dialogue(title, text, fields, verb) {
    return new Promise((resolve) => {
        const box = add(document.body, 'dialog', {'aria-label': title}), form = add(box, 'form', {method: 'dialog'});
        add(form, 'h2', {}, title);
        if (text) add(form, 'p', {}, text);
        for (const [name, label, type] of fields) {
            const line = add(form, 'label', {}, label);
            add(line, 'input', {name, type, autocomplete: type === 'password' ? 'current-password' : 'username'});
        }
        const line = add(form, 'p', 'tools');
        add(line, 'button', {value: 'yes'}, verb);
        button(line, 'Cancel', () => box.close(''));
        box.addEventListener('close', () => {
            resolve(box.returnValue === 'yes' ? Object.fromEntries(new FormData(form)) : null);
            box.remove();
        });
        box.showModal();
    });
}

async function login() {
    const fields = await dialogue('Log in', '', [['user', 'Your name, for the log', 'text'], ['token', 'Token', 'password']], 'Log in');
    if (!fields) return;
    try {
        await post('/api/login', fields);
        await know();
        say('You are logged in.');
        if (!site.state) listen();
    } catch (error) {
        say(error.message, true);
    }
}

async function logout() {
    await post('/api/logout', {}).catch(() => null);
    await know();
    say('You are logged out.');
}

/* What it is about; a lock that several may hold has seats. */
const about = (verb, name, {seat}, limit) => `${verb} ${seat ? `seat ${seat} of ` : ''}${clean(name, limit)}`;

function change(verb, name, options) {
    const what = about(verb, name, options);
    return async () => {
        if (!site.session.proof) return say('Log in first: looking needs no token, changing does.', true);
        if (!await dialogue(about(verb, name, options, 200), questions[verb], [], verb)) return;
        say(`${what} ...`);
        try {
            const {exit_code: code, answer, error} = await command(post('/api/change/' + verb, {name, ...options}));
            const results = answer.results && answer.results.map((one) => one.result).join(', ');
            say(`${what}: ${results || (code === 0 ? 'done' : error.trim() || 'failed')}`, code !== 0);
        } catch (error) {
            say(`${what}: ${error.message}`, true);
        }
        show();
    };
}

/* Without a token nobody can ever act: then there is nothing to press. */
const acts = (cell, name, verbs, options = {}) => {
    if (!site.session.has_token) return;
    const tools = add(cell, 'span', 'tools');
    for (const verb of verbs) button(tools, verb, change(verb, name, options), about(verb, name, options, 80));
};

/* --- what there is now -------------------------------------------------------------------------------------------- */

function tiles(parent, state) {
    const box = add(parent, 'div', 'tiles'), votes = state.lock_nodes.filter((node) => node.votes).length;
    const rates = state.rate || {processed: null, failed: null};
    tile(box, rates.processed === null ? null : rate(rates.processed), 'tasks a second');
    tile(box, rates.failed === null ? null : rate(rates.failed), 'failures a second', rates.failed > 0);
    tile(box, count(state.running_total), 'running');
    tile(box, count(state.queues.reduce((sum, queue) => sum + queue.length, 0)), 'in queues');
    tile(box, count(state.resources.reduce((sum, one) => sum + one.waiters, 0)), 'wait for locks');
    tile(box, number(state.retry), 'to be retried', state.retry > 0);
    tile(box, number(state.dead), 'dead', state.dead > 0);
    tile(box, `${votes} of ${state.lock_nodes.length}`, 'lock nodes vote', votes < state.lock_nodes.length);
}

function plots(parent) {
    const box = add(parent, 'div', 'plots'), all = site.history;
    const draw = (title, series) => figure(box, title, 170, series.map(([, name], i) => [`line p${i}`, name]), (svg, width) => {
        const x = axis([-3600, 0], {exact: true, unit: 'seconds', ticks: [-3600, -2700, -1800, -900, 0]});
        const points = series.map(([member]) => all.map((one) => [one.at - site.state.time, one[member] ?? null]));
        const plot = frame(svg, width, 170, x, axis(points.flat().map((point) => point[1] || 0), {zero: true}, 4));
        points.forEach((those, i) => line(plot, `p${i}`, series[i][1], those.filter(([at]) => at >= -3600)));
    });
    draw('Tasks a second, over the last hour', [['processed', 'processed'], ['failed', 'failed']]);
    draw('Tasks that wait, over the last hour', [['queued', 'in queues'], ['waiting', 'for locks'], ['running', 'running']]);
}

function overview(parent, state) {
    tiles(parent, state);
    plots(parent);
    add(parent, 'h2', {}, 'Processes');
    grid(parent, 'Processes', [
        ['Process', (row) => row.identity], ['State', (row) => row.quiet ? row.state + ', quiet' : row.state],
        ['Busy', (row) => `${row.busy}/${row.concurrency}`, 'n'],
        ['Memory', (row) => row.rss_kb > 0 ? `${(row.rss_kb / 1024).toFixed(1)} MiB` : null, 'n'],
        ['Heard', (row) => row.beat ? since(row.beat) + ' ago' : null, 'n'],
        ['Queues', (row) => (row.queues || []).join(' ')],
        ['', (row, cell) => acts(cell, row.identity, ['quiet', 'stop'])],
    ], state.processes, 'No process is alive.');
    add(parent, 'h2', {}, 'Queues');
    grid(parent, 'Queues', [
        ['Queue', (row, cell) => void link(cell, ['tasks', 'queue', row.name], row.name)],
        ['Length', (row) => number(row.length), 'n'], ['Lag', (row) => span(row.latency), 'n'],
        ['Paused', (row) => row.paused ? 'paused' : ''],
        ['', (row, cell) => acts(cell, row.name, [row.paused ? 'resume' : 'pause'])],
    ], state.queues, 'No queue has been used.');
    add(parent, 'h2', {}, 'Hottest resources');
    grid(parent, 'Hottest resources', [
        ['Resource', (row, cell) => {
            if (row.for === 'class') return `${row.name} (share of threads)`;
            link(cell, ['resource', row.name], row.name);
            return row.for === 'seats' ? ' (its seats)' : undefined;
        }],
        ['Waiters', (row) => number(row.waiters), 'n'],
        ['Held by', (row, cell) => row.holder ? void link(cell, ['task', row.holder], row.holder) : null],
        ['At', (row) => row.process],
    ], state.resources.slice(0, 50), 'No lock is waited for, or held by a task that is seen running.');
    if (state.resources_total > 50) add(parent, 'p', 'soft', `${count(state.resources_total - 50)} more.`);
    add(parent, 'h2', {}, 'Running');
    grid(parent, 'Running tasks', [
        ['Task', (row, cell) => void link(cell, ['task', row.jid], row.jid)], ['Class', (row) => row.class],
        ['Queue', (row) => row.queue], ['For', (row) => span(row.age), 'n'],
        ['Lock', (row, cell) => row.resource ? void link(cell, ['resource', row.resource], row.resource) : null],
        ['Token', (row) => row.token, 'n'], ['Process', (row) => row.process],
        ['', (row, cell) => acts(cell, row.jid, ['cancel'])],
    ], state.running.slice(0, 50), 'No task has been running for longer than a few seconds.');
    if (state.running_total > 50) add(parent, 'p', 'soft', `${count(state.running_total - 50)} more.`);
    add(parent, 'h2', {}, 'Lock nodes');
    grid(parent, 'Lock nodes', [
        ['Node', (row) => row.name], ['Address', (row) => row.address], ['Votes', (row) => row.votes ? 'yes' : 'no'],
        ['State', (row) => [row.state, row.reason].filter(Boolean).join(': ')], ['Latency', (row) => span(row.latency), 'n'],
        ['Quarantine', (row) => span(row.quarantine_left), 'n'],
    ], state.lock_nodes, 'There are no lock nodes, or they were not asked yet.');
}

/* --- what is searched for ----------------------------------------------------------------------------------------- */

const stamp = (at) => at ? date(at) : null;
const moment = (text) => typeof text === 'number' ? stamp(text) : text;

function tasksTable(parent, state, tasks) {
    const verbs = state === 'dead' ? ['retry', 'delete'] : state === 'retry' ? ['retry', 'bury', 'delete']
        : state === 'claims' ? ['cancel'] : ['bury', 'delete'];
    const id = (row) => row.key || row.jid;
    grid(parent, states[state], [
        ['Task', (row, cell) => void link(cell, ['task', id(row)], row.jid)], ['Class', (row) => row.class],
        ['Queue', (row) => row.queue], ['At', (row) => moment(row.at)], ['Failures', (row) => number(row.retry_count), 'n'],
        ['Error', (row) => row.error_class ? `${row.error_class}: ${row.error_message || ''}` : null],
        ['', (row, cell) => acts(cell, id(row), verbs)],
    ], tasks, 'Nothing is here.');
}

async function tasksView(parent, state, queue = '') {
    const form = add(parent, 'form', {class: 'tools', role: 'search'});
    const field = (name, label) => add(add(form, 'label', {}, label + ' '), 'input', {name, type: 'search'});
    const inputs = state === 'queue' ? [] : [field('queue', 'Queue'), field('class', 'Class')];
    const text = field('text', 'Text, or a jid');
    add(form, 'button', {}, 'Search');
    const out = add(parent, 'div', {'aria-live': 'polite'}), note = add(parent, 'p', 'soft');
    const more = button(parent, 'More', () => load(cursor));
    let cursor = null, seen = [];
    const fits = (row) => JSON.stringify(row).toLowerCase().includes(text.value.trim().toLowerCase());
    async function load(from) {
        note.textContent = 'Looking ...';
        if (!from) seen = [];
        const fields = {state, limit: 100, queue: queue || inputs[0]?.value || '', class: inputs[1]?.value || ''};
        if (from) fields.cursor = from;
        try {
            const {answer} = await search('tasks', fields);
            seen = seen.concat(answer.tasks);
            cursor = answer.next;
            note.textContent = `${count(seen.filter(fits).length)} shown` + (cursor ? ', and there may be more.' : '.');
        } catch (error) {
            note.textContent = clean(error.message);
        }
        out.replaceChildren();
        tasksTable(out, state, seen.filter(fits));
        more.hidden = !cursor;
    }
    form.addEventListener('submit', (event) => {
        event.preventDefault();
        if (/^[0-9a-f]{24}$/.test(text.value.trim())) location.hash = '#task/' + text.value.trim();
        else load(null);
    });
    await load(null);
}

function members(parent, object, left = []) {
    const list = add(parent, 'dl', 'facts');
    for (const [name, value] of Object.entries(object)) {
        if (value === null || left.includes(name)) continue;
        add(list, 'dt', {}, name);
        const shown = typeof value === 'object' ? JSON.stringify(value, null, 2) : value;
        const at = /(_at|^at|^since)$/.test(name) && typeof value === 'number' ? `${value} (${stamp(value)})` : shown;
        if (String(at).includes('\n')) add(add(list, 'dd'), 'pre').textContent = String(at).slice(0, 100000);
        else add(list, 'dd', {}, at);
    }
}

/* A text of JSON in lines, but byte for byte: JSON.parse rounds numbers. */
function indented(json) {
    let lines = '', depth = 0;
    const lineEnd = () => '\n' + '  '.repeat(Math.min(depth, 50));
    for (const token of json.match(/"(?:\\.|[^"\\])*"|[{[]\s*[}\]]|[{}[\],:]|[^\s"{}[\],:]+/g) || []) {
        if (/^[}\]]/.test(token)) depth--, lines += lineEnd();
        lines += token + (token === ':' ? ' ' : '');
        if (/^[{[]$/.test(token)) depth++;
        if (/^[{[,]$/.test(token)) lines += lineEnd();
    }
    return lines;
}

async function taskView(parent, id) {
    const {answer: task} = await search('task', {id});
    const verbs = {retry: ['retry', 'bury', 'delete', 'cancel'], dead: ['retry', 'delete'], claims: ['cancel']};
    const pre = (text) => { add(parent, 'pre').textContent = text.slice(0, 100000); };
    add(parent, 'p', 'answer', task.why.sentence);
    add(parent, 'p', {}, `What to do: ${task.why.advice}`);
    acts(parent, task.key || task.jid, verbs[task.state] || ['bury', 'delete', 'cancel']);
    members(parent, task, ['error_backtrace', 'task', 'key', 'why']);
    if (task.error_backtrace) {
        add(parent, 'h3', {}, 'Backtrace');
        pre([].concat(task.error_backtrace).join('\n'));
    }
    if (!task.task) return;
    add(parent, 'h3', {}, 'As it is');
    pre(indented(task.task));
}

async function resourceView(parent, name) {
    const {answer} = await search('holder', {resource: name});
    add(parent, 'p', answer.state === 'held' ? 'answer tone-good' : 'answer tone-warn', `It is ${answer.state}.`);
    if (answer.state === 'held' && answer.holders.every((holder) => !holder.seat)) acts(parent, name, ['unlock']);
    for (const holder of answer.holders) {
        if (holder.seat && holder.standing === 'held') acts(parent, name, ['unlock'], {seat: holder.seat});
        members(parent, holder, ['value_hex']);
    }
    add(parent, 'h2', {}, `Who waits (${count(answer.waiting || 0)})`);
    grid(parent, 'Who waits', [
        ['Task', (row, cell) => void link(cell, ['task', row.jid], row.jid)], ['Class', (row) => row.class],
        ['Queue', (row) => row.queue], ['State', (row) => row.state], ['Looks again', (row) => moment(row.at)],
    ], answer.waiters, 'Nobody waits for it.');
    add(parent, 'h2', {}, 'On the nodes');
    grid(parent, 'On the nodes', [
        ['Node', (row) => row.name], ['State', (row) => row.state], ['Answered', (row) => row.answered ? 'yes' : 'no'],
        ['Trouble', (row) => row.trouble], ['Expires in', (row) => span(row.remaining), 'n'], ['Fence', (row) => row.fence, 'n'],
    ], answer.nodes, 'There are no lock nodes.');
}

async function contentionView(parent) {
    const {answer} = await search('contention', {days: 1});
    add(parent, 'p', 'soft', 'Locks of each class today (UTC), the most contended first.');
    grid(parent, 'Contention by class', [
        ['Class', (row) => row.class], ['Kind of resource', (row) => row.prefix],
        ...['acquired', 'waited', 'parked', 'handed_over', 'skipped', 'lost', 'fenced_off'].map((member) =>
            [member.replace('_', ' '), (row) => number(row[member]), 'n']),
        ['Wait p99 below', (row) => span(row.wait.p99_below), 'n'], ['Hold p99 below', (row) => span(row.hold.p99_below), 'n'],
    ], answer.locks, 'No lock was taken today.');
}

/* --- the page ----------------------------------------------------------------------------------------------------- */

const views = {
    tasks: (main, state, queue) => tasksView(main, state in states ? state : 'dead', queue),
    task: taskView, resource: resourceView, contention: contentionView,
};
const titles = {
    tasks: (state, queue) => queue ? `Queue ${queue}` : states[state] || 'Dead',
    task: (id) => `Task ${id}`, resource: (name) => `Resource ${name}`, contention: () => 'Contention',
};

const route = () => location.hash.slice(1).split('/').filter(Boolean).map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
});

/* Draws the overview again and again; everything else only when it is asked for. */
async function show() {
    const [name, ...rest] = route(), body = document.querySelector('#body'), isKnown = name in views;
    for (const one of document.querySelectorAll('nav a'))
        one.toggleAttribute('aria-current', one.hash === location.hash);
    site.view = isKnown ? location.hash : '';
    if (!isKnown) return draw_overview();
    body.replaceChildren();
    add(body, 'h2', {tabindex: '-1'}, titles[name](...rest));
    const part = add(body, 'div');
    try {
        await views[name](part, ...rest);
    } catch (error) {
        add(part, 'p', 'bad', error.message);
    }
    return undefined;
}

/* Somebody who uses the keyboard finds the same button under the cursor as before. */
function draw_overview() {
    const body = document.querySelector('#body'), {activeElement} = document;
    const label = body.contains(activeElement) ? activeElement.getAttribute('aria-label') || activeElement.textContent : null;
    if (document.querySelector('dialog[open]') || (label === null && body.matches(':active'))) return;
    body.replaceChildren();
    if (site.state) overview(body, site.state);
    else add(body, 'p', 'soft', site.session.may_read ? 'Waiting for the first look ...' : site.session.has_token
        ? 'Log in to see the fleet.' : 'Through a proxy the fleet is only shown to who logs in: give --token-file.');
    if (label !== null)
        [...body.querySelectorAll('a, button, [tabindex]')].find((one) =>
            (one.getAttribute('aria-label') || one.textContent) === label)?.focus();
}

function headline() {
    const element = document.querySelector('#health'), state = site.state, silent = (Date.now() - site.heard) / 1000;
    if (!state) return;
    const old = state.old + site.age + silent;
    element.textContent = state.away ? `The queue node does not answer: ${state.away}. What follows is ${time(old)} old.`
        : silent > 20 ? `\`holdfast serve\` does not answer. What follows is ${time(old)} old.` : clean(state.health);
    element.className = 'answer ' + (state.away || silent > 20 ? 'tone-bad' : state.well ? 'tone-good' : 'tone-warn');
    document.title = (state.well && !state.away ? '' : '! ') + 'Holdfast';
}

function listen() {
    const events = new EventSource(site.prefix + '/events');
    const on = (name, take) => events.addEventListener(name, (event) => take(JSON.parse(event.data)));
    on('history', (samples) => { site.history = samples; });
    on('sample', (sample) => { site.history = site.history.concat([sample]).slice(-360); });
    on('state', ({age, state}) => {
        [site.state, site.age, site.heard] = [state || site.state, age, Date.now()];
        headline();
        if (site.view === '') draw_overview();
    });
}

async function know() {
    site.session = await (await ask('/api/session')).json();
    const element = document.querySelector('#who');
    element.replaceChildren();
    if (site.session.proof) {
        element.append(clean(site.session.user || 'logged in', 60) + ' ');
        button(element, 'Log out', logout);
    } else if (site.session.has_token) {
        button(element, 'Log in', login);
    } else {
        element.append('Nothing can be changed here: `holdfast serve` was started without --token-file.');
    }
}

async function draw(data, main) {
    site.prefix = data.prefix;
    const nav = add(main, 'nav', {'aria-label': 'Parts'});
    for (const [where, text] of [[[], 'Overview'], [['tasks', 'retry'], 'Retries'], [['tasks', 'dead'], 'Dead'],
        [['tasks', 'schedule'], 'Scheduled'], [['contention'], 'Contention']])
        link(nav, where, text);
    add(nav, 'span', {id: 'who', class: 'tools'});
    add(main, 'p', {id: 'health', role: 'status', class: 'answer'}, 'Connecting ...');
    add(main, 'p', {id: 'said', role: 'status'});
    add(main, 'div', {id: 'body'});
    addEventListener('hashchange', async () => {
        say('');
        await show();
        document.querySelector('#body h2')?.focus();
    });
    setInterval(headline, 5000);
    await know().catch((error) => say(error.message, true));
    if (site.session.may_read) listen();
    else if (site.session.has_token) await login();
    show();
}
