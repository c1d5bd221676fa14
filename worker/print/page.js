/* What pages share: elements, numbers as worker/print/human.c writes them, times of day, tables and plots. The script
 * of the page comes behind it and defines draw(data, main). */
'use strict';

const SVG = 'http://www.w3.org/2000/svg';
const CHARACTER = 6.8; // the mean width of one in a plot

/* --- elements ----------------------------------------------------------------------------------------------------- */

/* Controls and what reorders text become question marks; what is too long to be read is cut. */
function clean(value, most = 4000) {
    const text = String(value).replace(/[\0-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufffe\uffff]/g, '?');
    return text.length > most ? text.slice(0, most - 1) + '…' : text;
}

/* Appends an element. `attributes` may be just its class; children are texts and elements. */
function add(parent, tag, attributes = {}, ...children) {
    const node = document.createElementNS(tag === 'svg' ? SVG : parent.namespaceURI, tag);
    const all = typeof attributes === 'string' ? {class: attributes} : attributes;
    for (const name in all) node.setAttribute(name, clean(all[name], Infinity));
    node.append(...children.map((child) => child instanceof Node ? child : clean(child)));
    parent.append(node);
    return node;
}

/* A part of a drawing, and what it says when it is pointed at. */
function shape(parent, tag, attributes, title, ...children) {
    const node = add(parent, tag, attributes, ...children);
    if (title) add(node, 'title', {}, title);
    return node;
}

/* What stands between backticks is code. */
function prose(parent, tag, attributes, text) {
    const node = add(parent, tag, attributes);
    clean(text).split('`').forEach((part, i) => i % 2 ? add(node, 'code', {}, part) : node.append(part));
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

const threeDigits = (number) => number > 0 ? number.toFixed(number < 9.995 ? 2 : number < 99.95 ? 1 : 0) : '0';
const count = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ',');

function time(seconds) {
    if (!(seconds > 0)) return '0';
    if (seconds < 0.9995e-6) return (seconds * 1e9).toFixed(0) + ' ns';
    if (seconds < 0.9995e-3) return (seconds * 1e6).toFixed(0) + ' us';
    if (seconds < 0.9995) return threeDigits(seconds * 1e3) + ' ms';
    if (seconds < 120) return threeDigits(seconds) + ' s';
    const [size, unit] = seconds < 7200 ? [60, 'm'] : seconds < 172800 ? [3600, 'h'] : [86400, 'd'];
    return (seconds / size).toFixed(0) + unit;
}

function rate(number) {
    let unit = 0;
    for (; number >= 999.5 && unit < 4; unit++) number /= 1000;
    return threeDigits(number) + ['', 'k', 'M', 'G', 'T'][unit];
}

function share(part) {
    const percents = part > 0 ? part * 100 : 0;
    if (percents >= 99.95 && percents < 100) return (percents < 99.995 ? percents.toFixed(2) : '99.99') + ' %';
    return percents.toFixed((percents > 0 && percents < 9.95) || (percents >= 99 && percents < 99.95) ? 1 : 0) + ' %';
}

/* What stands at an axis. */
function tickText(unit, value) {
    const short = (number) => String(Number(number.toPrecision(4))), size = Math.abs(value) * 1.000001;
    if (unit === 'share') return short(value * 100) + ' %';
    if (size < 1e-9) return '0';
    const units = unit !== 'seconds' ? [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [0, '']]
        : size < 180 ? [[1, ' s'], [1e-3, ' ms'], [0, ' us']] : [[172800, ' d'], [7200, ' h'], [0, ' min']];
    const sizes = {' d': 86400, ' h': 3600, ' min': 60, ' us': 1e-6, '': 1};
    const [least, name] = units.find(([from]) => size >= from);
    return short(value / (sizes[name] || least)) + name;
}

/* --- times of day: those of the reader ---------------------------------------------------------------------------- */

const pad = (number, digits = 2) => String(number).padStart(digits, '0');
const isMoment = (at) => !Number.isNaN(new Date(at * 1000).getTime());

function clock(at, digits = 0) {
    const day = new Date(at * 1000), rest = digits ? '.' + pad(day.getMilliseconds(), 3).slice(0, digits) : '';
    return isMoment(at) ? `${pad(day.getHours())}:${pad(day.getMinutes())}:${pad(day.getSeconds())}${rest}` : '';
}

function date(at) {
    const day = new Date(at * 1000), minutes = -day.getTimezoneOffset(), size = Math.abs(minutes);
    const offset = (minutes < 0 ? '-' : '+') + pad(Math.floor(size / 60)) + ':' + pad(size % 60);
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    return !isMoment(at) ? '-' : `${day.getFullYear()}-${pad(day.getMonth() + 1)}-${pad(day.getDate())} ${clock(at)} ` +
        (zone === 'UTC' ? zone : `${zone} (UTC${offset})`);
}

/* --- words and tables --------------------------------------------------------------------------------------------- */

const words = {
    __proto__: null, // a column may have any title
    'handed over': 'The holder before passed its lock on to the next waiter, without a round over the lock nodes.',
    'parked': 'The lock was taken. The task gave its runner back and waited in a list on the queue node.',
    'skipped': 'The lock was taken, and the mode of the class says that the task is needless then.',
    'lost': 'A lock ended before its task did, because it was not extended in time.',
    'refused': 'A store that compares fencing tokens refused a late write: the lock had a later holder.',
    'overlaps': 'A task began while another one was still at the same resource.',
};

function glossary(parent, names) {
    const section = add(parent, 'section'), list = (add(section, 'h2', {}, 'What the words mean'), add(section, 'dl'));
    for (const name of names) add(list, 'dt', {}, name), add(list, 'dd', {}, words[name]);
}

const some = (number) => number > 0 ? 'bad' : ''; // of what should not be

/* `columns`: title; the member of a row, or a function of the row; the function that writes its number (none: it is a
 * text); the function that gives the class of its cell (none: it has none). */
function table(parent, columns, rows) {
    const all = add(add(parent, 'div', 'wide'), 'table', columns.length > 12 ? 'tight' : '');
    const titles = add(add(all, 'thead'), 'tr'), body = add(all, 'tbody');
    for (const [title, , format] of columns)
        add(titles, 'th', {class: format ? 'n' : '', title: words[title] || ''}, title);
    for (const row of rows) {
        const line = add(body, 'tr');
        for (const [, member, format, classOf] of columns) {
            const value = typeof member === 'function' ? member(row) : row[member];
            const text = clean(!format ? value : value === null ? '-' : format(value), 400);
            const style = format ? 'n ' : text.length > 40 ? 'long ' : '';
            add(line, 'td', style + (classOf ? classOf(value, row) : ''), text);
        }
    }
}

/* A style may be a function that draws the key. */
function legend(parent, entries) {
    const line = add(parent, 'p', 'legend soft');
    for (const [style, name] of entries) {
        const entry = add(line, 'span');
        if (typeof style === 'function') style(add(entry, 'svg', {viewBox: '-6 -6 12 12'}));
        else add(entry, 'span', 'key ' + style);
        entry.append(clean(name, 60));
        line.append(' ');
    }
}

/* --- plots -------------------------------------------------------------------------------------------------------- */

/* 1, 2 or 5 times a power of ten: the smallest that is not below, the largest that is not above. */
const roundUp = (value) => {
    const power = 10 ** Math.floor(Math.log10(value));
    return power * [1, 2, 5, 10].find((factor) => value / power <= factor * 1.000001);
};
const roundDown = (value) => {
    const power = 10 ** Math.floor(Math.log10(value));
    return power * ([5, 2].find((factor) => value / power >= factor * 0.999999) || 1);
};

function stepOf(least, unit) {
    const byClock = [20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200];
    if (unit !== 'seconds' || least <= 10) return roundUp(least);
    return byClock.find((step) => least <= step) || roundUp(least / 86400) * 86400;
}

function logTicks(low, high) {
    const decades = Math.log10(high / low), found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += decades > 7 ? 2 : 1)
        for (const factor of decades <= 2.3 ? [1, 2, 5] : [1]) found.push(factor * 10 ** power);
    return found.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
}

/* From numbers to places of 0 to 1. What is no number, or cannot be on the axis, is passed over. Options: log; unit
 * (seconds, share); zero: begins there; exact: ends with the values; ticks: where, else at most so many round ones. */
function axis(values, options, most = 6) {
    const {log, unit, zero, exact, ticks} = options;
    const seen = values.filter((value) => log ? value > 0 && value < 1e15 : Math.abs(value) < 1e15);
    let low = zero ? 0 : Math.min(...seen), high = Math.max(...seen, zero ? 0 : -Infinity), step;
    if (!(high >= low)) [low, high] = log ? [1, 1] : [0, 1];
    if (log) {
        low = Math.max(low, high / 1e9);
        if (!ticks) [low, high] = [roundDown(low), roundUp(high)];
        if (high < low * 1.5) [low, high] = [low / 2, high * 2];
    } else {
        if (unit === 'share' && high > 0.6 && high <= 1) high = 1;
        if (high === low) high = low + 1;
        step = stepOf((high - low) / most, unit);
        if (!exact) [low, high] = [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step];
    }
    const all = ticks || (log ? logTicks(low, high) : []), on = (value) => log ? Math.log(Math.max(value, low)) : value;
    for (let i = Math.ceil(low / step - 1e-9); step && i * step <= high + step / 100; i++) all.push(i * step);
    const place = (value) => (on(value) - on(low)) / (on(high) - on(low));
    return {...options, ticks: all, place: (value) => Math.min(Math.max(place(value) || 0, 0), 1)};
}

/* Draws with the width of the element, now and when it changes. */
function fit(element, draw) {
    let width = 0;
    const look = () => {
        const now = Math.round(element.getBoundingClientRect().width);
        if (now > 0 && now !== width) draw(width = now);
    };
    look();
    new ResizeObserver(() => requestAnimationFrame(look)).observe(element);
}

/* A drawing with a title above and a legend below; `draw(svg, width)` fills it. */
function figure(parent, title, height, names, draw) {
    const box = add(parent, 'figure');
    add(box, 'figcaption', {}, title);
    const svg = add(box, 'svg', {role: 'img', 'aria-label': title});
    legend(box, names);
    fit(svg, (width) => {
        svg.replaceChildren();
        svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
        draw(svg, width);
    });
}

/* Axes, ticks and labels. Labels that would touch the one before are left out. `left`: room for names instead of ticks
 * of y; x.clock: what stands below its ticks. Returns where values lie. */
function frame(svg, width, height, x, y, left = 0) {
    const from = left || 52, to = width - 14, top = y.label ? 20 : 8;
    const bottom = height - 20 - (x.label ? 12 : 0) - (x.clock ? 12 : 0);
    const X = (value) => Number((from + x.place(value) * (to - from)).toFixed(1));
    const Y = (value) => Number((bottom - y.place(value) * (bottom - top)).toFixed(1));
    let end = -Infinity;
    for (const tick of x.ticks) {
        const at = X(tick), texts = [tickText(x.unit, tick)].concat(x.clock ? x.clock(tick) : []);
        const half = CHARACTER * Math.max(...texts.map((text) => text.length)) / 2;
        const middle = Math.min(Math.max(at, half), width - half);
        add(svg, 'line', {class: 'grid', x1: at, x2: at, y1: top, y2: bottom});
        if (middle - half < end) continue;
        for (const [i, text] of texts.entries())
            add(svg, 'text', {x: middle, y: bottom + 14 + 12 * i, 'text-anchor': 'middle'}, text);
        end = middle + half + CHARACTER;
    }
    for (const tick of left ? [] : y.ticks) {
        add(svg, 'line', {class: 'grid', x1: from, x2: to, y1: Y(tick), y2: Y(tick)});
        add(svg, 'text', {x: from - 5, y: Y(tick) + 4, 'text-anchor': 'end'}, tickText(y.unit, tick));
    }
    add(svg, 'path', {class: 'axis', d: `M${from} ${top}V${bottom}H${to}`});
    if (y.label) add(svg, 'text', {x: 4, y: 11}, y.label);
    if (x.label) add(svg, 'text', {x: to, y: height - 5, 'text-anchor': 'end'}, x.label);
    return {svg, X, Y, x, y, top, bottom};
}

/* `points` are pairs of x and y; the line is broken where y is no number. */
function line(plot, style, name, points, hasDots) {
    const move = (i) => i > 0 && points[i - 1][1] !== null ? 'L' : 'M', {unit, clock} = plot.x;
    const path = points.map(([x, y], i) => y === null ? '' : `${move(i)}${plot.X(x)} ${plot.Y(y)}`).join('');
    shape(plot.svg, 'path', {class: 'series ' + style, d: path}, name);
    for (const [x, y] of hasDots ? points.filter((point) => point[1] !== null) : []) {
        const moment = tickText(unit, x) + (clock ? ', ' + clock(x) : '');
        dot(plot, style, x, y, `${name}: ${tickText(plot.y.unit, y)} at ${moment}`);
    }
}

function dot(plot, style, x, y, title) {
    shape(plot.svg, 'circle', {class: 'dot ' + style, cx: plot.X(x), cy: plot.Y(y), r: 3.5}, title);
}

function box(plot, style, from, to, top, bottom, title) {
    const x = plot.X(from), width = Math.max(plot.X(to) - x, 1);
    shape(plot.svg, 'rect', {class: style, x, width, y: top, height: Math.max(bottom - top, 0)}, title);
}

/* --- the beginning ------------------------------------------------------------------------------------------------ */

/* The text stays in sight until all is drawn. */
function start(draw) {
    const text = document.querySelector('details'), main = document.querySelector('main');
    draw(JSON.parse(document.querySelector('script[type]').textContent), main);
    text?.removeAttribute('open');
}
