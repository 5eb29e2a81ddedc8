"use strict";
// Sorting, filters, copies, long tables, long names, and the values under the pointer. Without it the page is complete, only still.

const FIRST = 12;

const SEVERAL = 5;  // rows from which on a table has a filter

function shorten(table, all) {
  const rows = [...table.tBodies[0].rows];
  const words = table.dataset.filter ?? "";
  // A part is shown with the row that it belongs to, and that row with its parts.
  const blocks = [];
  for (const row of rows) {
    if (row.classList.contains("part") && blocks.length) blocks.at(-1).push(row);
    else blocks.push([row]);
  }
  let shown = 0, found = 0;
  for (const block of blocks) {
    const fits = !words || block.some(row => whole(row).includes(words));
    for (const row of block) {
      row.classList.toggle("out", !fits);
      row.hidden = !fits || (!all && shown >= FIRST);
      if (fits) { shown++; found++; }
    }
  }
  return found;
}

// What a cell says: all of it, though it shows less.
function content(cell) {
  if ("whole" in cell.dataset) return wholes[cell.dataset.whole];
  return cell.dataset.full ?? cell.textContent;
}

function whole(row) {
  return [...row.cells].map(content).join("\u001f").toLowerCase();
}

function csv(table) {
  const quoted = text => /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  // A spreadsheet takes a text that begins like this for a formula.
  const harmless = text => /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  const heads = [...table.tHead.rows[0].cells].map(head => quoted(head.dataset.name));
  const rows = [...table.tBodies[0].rows].filter(row => !row.classList.contains("out"));
  const lines = rows.map(row => [...row.cells].map(cell =>
    "v" in cell.dataset ? cell.dataset.v : quoted(harmless(content(cell)))).join(","));
  return [heads.join(","), ...lines].join("\n") + "\n";
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Where a page from disk may not: as people would do it by hand.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

function sort(table, column, descending) {
  const body = table.tBodies[0];
  const blocks = [];  // a part stays with the row that it belongs to
  for (const row of body.rows) {
    if (row.classList.contains("part") && blocks.length) blocks.at(-1).push(row);
    else blocks.push([row]);
  }
  const key = block => {
    const cell = block[0].cells[column];
    return "v" in cell.dataset ? (cell.dataset.v === "" ? null : Number(cell.dataset.v)) : cell.textContent;
  };
  const keyed = blocks.map(block => [key(block), block]);
  const sign = descending ? -1 : 1;
  keyed.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);  // what has no value comes last
    return sign * (typeof a === "number" ? a - b : a.localeCompare(b, undefined, {numeric: true}));
  });
  body.append(...keyed.flatMap(([, block]) => block));
  [...table.tHead.rows[0].cells].forEach((head, i) => {
    if (i === column) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
}

// Of a long name the page shows the beginning, and all of it when asked.
const wholes = JSON.parse(document.getElementById("wholes")?.textContent ?? "[]");

for (const table of document.querySelectorAll("table.sortable")) {
  const rows = table.tBodies[0].rows.length;
  const title = table.caption.textContent;
  const few = rows <= FIRST + 3;
  let all = few, show = null;
  const tools = document.createElement("div"), told = document.createElement("span"), make = document.createElement("button");
  tools.className = "tools";
  told.className = "note";
  told.setAttribute("role", "status");
  const say = found => { told.textContent = table.dataset.filter ? `${found} of ${rows} rows` : ""; };
  const again = () => {
    const found = shorten(table, all);
    if (show) show.hidden = found <= FIRST + 3;
    say(found);
  };
  if (rows > SEVERAL) {
    const filter = document.createElement("input");
    filter.type = "search";
    filter.placeholder = "Filter rows";
    filter.setAttribute("aria-label", `Filter rows: ${title}`);
    filter.addEventListener("input", () => { table.dataset.filter = filter.value.trim().toLowerCase(); again(); });
    tools.append(filter);
  }
  make.type = "button";
  make.className = "copy";
  make.textContent = "Copy as CSV";
  make.setAttribute("aria-label", `Copy as CSV: ${title}`);
  make.addEventListener("click", async () => {
    const text = csv(table);
    told.textContent = await copy(text) ? `${text.trimEnd().split("\n").length - 1} rows copied` : "the browser does not allow copying";
  });
  tools.append(make, told);
  if (rows) table.parentElement.before(tools);
  if (!few) {
    show = document.createElement("button");
    show.className = "all";
    show.type = "button";
    const tell = () => { show.textContent = all ? `Show the first ${FIRST} rows` : `Show all ${rows} rows`; };
    show.addEventListener("click", () => { all = !all; again(); tell(); });
    tell();
    table.parentElement.after(show);
    again();
  }
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes[0].childNodes);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      // Numbers begin with the largest, texts with A.
      sort(table, column, before ? before === "ascending" : head.classList.contains("n"));
      again();
    });
  });
}

for (const cell of document.querySelectorAll("th[data-whole], td.long[data-whole], dd[data-whole]")) {
  const whole = wholes[cell.dataset.whole], shown = cell.textContent;
  if (whole.length <= shown.length) continue;
  const button = document.createElement("button");
  button.className = "all";
  button.type = "button";
  let all = false;
  const show = () => {
    const name = whole.replace(/\p{C}/gu, c => `\\u{${c.codePointAt(0).toString(16)}}`);
    button.textContent = all ? "Show less" : "Show all of it";
    cell.replaceChildren(all ? name : shown, " ", button);
  };
  button.addEventListener("click", () => { all = !all; show(); });
  show();
}

// Four digits, as the tables have them.
function digits(value) {
  let before = String(Math.trunc(Math.abs(value))).length;
  if (Math.abs(value).toFixed(Math.max(4 - before, 0)) >= 10 ** before) before++;  // 9.9996 is 10.00
  const places = Math.max(4 - before, 0);
  return value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
}

function duration(ns) {
  if (Number.isInteger(ns) && Math.abs(ns) < 1e3) return `${ns} ns`;
  const [scale, unit] = [[1, "ns"], [1e3, "µs"], [1e6, "ms"]].find(([own]) => Math.abs(ns) < own * 999.95) ?? [1e9, "s"];
  return `${digits(ns / scale)} ${unit}`;
}

function size(bytes) {
  let i = 0;
  while (bytes >= 1023.5 && i < 4) { bytes /= 1024; i++; }
  return `${i ? digits(bytes) : Math.round(bytes)} ${["B", "KiB", "MiB", "GiB", "TiB"][i]}`;
}

// What a plot shows at a place, given in parts of its width and height; nothing where it shows nothing there.
function lines(data, x, y) {
  const time = data.begin + x * (data.end - data.begin), share = value => `${(100 * value).toFixed(1)} %`;
  if (data.unit === "cells") {
    const row = data.rows.find(row => y >= row.from && y < row.to);
    if (!row) return [];
    const at = Math.min(row.values.length - 1, Math.floor(x * row.values.length)), value = row.values[at];
    if (data.columns.length) return [`${row.name} to ${data.columns[at]}`, `${size(value)}  ${row.map}`];
    return [`at ${duration(time)}`, `${share(value)}  ${row.name}, ${row.map}`];
  }
  let at;
  if (data.times) {
    for (at = data.times.length - 1; at >= 0 && data.times[at] > time; at--);
  } else {
    const count = data.series[0].values.length;
    at = Math.min(count - 1, Math.floor(x * count));
  }
  const show = (value, series) => {
    if (data.unit === "bytes") return size(value);
    if (series.high === undefined) return share(value);
    const own = series.low + value * (series.high - series.low);
    return series.unit === "bytes" ? size(own) : `${Number(own.toPrecision(4))} ${series.unit}`.trim();
  };
  const values = data.series.map(series => [series, at < 0 ? 0 : series.values[at]]);
  const out = values.map(([series, value]) => `${show(value, series)}  ${series.name}`);
  if (data.unit === "bytes" && values.length > 1) out.unshift(`${size(values.reduce((sum, [, v]) => sum + v, 0))}  in all`);
  return [`at ${duration(time)}`, ...out];
}

// The part of a figure in which the numbers are drawn.
const area = figure => [...figure.querySelectorAll("svg")].find(svg => svg.checkVisibility())?.querySelector("path.background").getBoundingClientRect();
const crosses = [];  // of all plots over time: pointing at one shows the same moment in the others

for (const figure of document.querySelectorAll("figure[data-hover]")) {
  const data = JSON.parse(document.getElementById(figure.dataset.hover).textContent);
  const tip = document.createElement("div"), cross = document.createElement("div");
  tip.className = "tip";
  cross.className = "cross";
  tip.hidden = cross.hidden = true;
  figure.append(cross, tip);
  const timed = data.end > data.begin;
  crosses.push({hide: () => { cross.hidden = true; }, show: time => {
    const plot = timed && time >= data.begin && time <= data.end && area(figure);
    cross.hidden = !plot;
    if (!plot) return;
    const own = figure.getBoundingClientRect();
    cross.style.left = `${plot.left - own.left + (time - data.begin) / (data.end - data.begin) * plot.width}px`;
    cross.style.top = `${plot.top - own.top}px`;
    cross.style.height = `${plot.height}px`;
  }});
  const leave = () => { tip.hidden = true; crosses.forEach(other => other.hide()); };
  figure.addEventListener("pointerleave", leave);
  figure.addEventListener("pointermove", event => {
    const plot = event.target.closest("svg") && area(figure);
    if (!plot || event.clientX < plot.left || event.clientX > plot.right || event.clientY < plot.top || event.clientY > plot.bottom) return leave();
    const x = (event.clientX - plot.left) / plot.width, y = (event.clientY - plot.top) / plot.height;
    const texts = lines(data, x, y);
    if (timed) crosses.forEach(other => other.show(data.begin + x * (data.end - data.begin)));
    tip.replaceChildren(...texts.map(text => {
      const line = document.createElement("div");
      line.textContent = text;
      return line;
    }));
    tip.hidden = !texts.length;
    const own = figure.getBoundingClientRect(), left = event.clientX - own.left;
    tip.style.left = `${Math.max(4, left + tip.offsetWidth + 16 > own.width ? left - tip.offsetWidth - 10 : left + 10)}px`;
    tip.style.top = `${event.clientY - own.top + 14}px`;
  });
}
