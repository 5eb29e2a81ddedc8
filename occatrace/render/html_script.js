"use strict";
// Sorting, long tables, long names, and the values under the pointer. Without it the page is complete, only still.

const FIRST = 12;

function shorten(table, all) {
  const rows = [...table.tBodies[0].rows];
  rows.forEach((row, i) => { row.hidden = !all && i >= FIRST; });
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

for (const table of document.querySelectorAll("table.sortable")) {
  const rows = table.tBodies[0].rows.length;
  let all = rows <= FIRST + 3;
  if (!all) {
    const button = document.createElement("button");
    button.className = "all";
    button.type = "button";
    const tell = () => { button.textContent = all ? `Show the first ${FIRST} rows` : `Show all ${rows} rows`; };
    button.addEventListener("click", () => { all = !all; shorten(table, all); tell(); });
    tell();
    table.parentElement.after(button);
    shorten(table, false);
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
      shorten(table, all);
    });
  });
}

// Of a long name the page shows the beginning, and all of it when asked.
const wholes = JSON.parse(document.getElementById("wholes")?.textContent ?? "[]");
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

function duration(ns) {
  const [scale, unit] = ns < 1e3 ? [1, "ns"] : ns < 1e6 ? [1e3, "µs"] : ns < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  return `${(ns / scale).toPrecision(5)} ${unit}`;
}

function size(bytes) {
  let i = 0;
  while (bytes >= 1024 && i < 4) { bytes /= 1024; i++; }
  return `${i ? bytes.toPrecision(4) : bytes} ${["B", "KiB", "MiB", "GiB", "TiB"][i]}`;
}

function lines(data, time) {
  let at;
  if (data.times) {
    for (at = data.times.length - 1; at >= 0 && data.times[at] > time; at--);
  } else {
    const count = data.series[0].values.length;
    at = Math.min(count - 1, Math.floor((time - data.begin) / (data.end - data.begin) * count));
  }
  const show = value => data.unit === "bytes" ? size(value) : `${(100 * value).toFixed(1)} %`;
  const values = data.series.map(series => [series.name, at < 0 ? 0 : series.values[at]]);
  const out = values.map(([name, value]) => `${show(value)}  ${name}`);
  if (data.unit === "bytes" && values.length > 1) out.unshift(`${show(values.reduce((sum, [, v]) => sum + v, 0))}  in all`);
  return out;
}

for (const figure of document.querySelectorAll("figure[data-hover]")) {
  const data = JSON.parse(document.getElementById(figure.dataset.hover).textContent);
  const tip = document.createElement("div"), cross = document.createElement("div");
  tip.className = "tip";
  cross.className = "cross";
  tip.hidden = cross.hidden = true;
  figure.append(cross, tip);
  const leave = () => { tip.hidden = cross.hidden = true; };
  figure.addEventListener("pointerleave", leave);
  figure.addEventListener("pointermove", event => {
    const svg = event.target.closest("svg");
    const plot = svg && svg.querySelector("path.background").getBoundingClientRect();
    if (!plot || event.clientX < plot.left || event.clientX > plot.right || event.clientY > plot.bottom) return leave();
    const time = data.begin + (event.clientX - plot.left) / plot.width * (data.end - data.begin);
    const own = figure.getBoundingClientRect();
    tip.replaceChildren(...[`at ${duration(time)}`, ...lines(data, time)].map(text => {
      const line = document.createElement("div");
      line.textContent = text;
      return line;
    }));
    tip.hidden = cross.hidden = false;
    const x = event.clientX - own.left;
    cross.style.left = `${x}px`;
    cross.style.top = `${plot.top - own.top}px`;
    cross.style.height = `${plot.height}px`;
    tip.style.left = `${Math.max(4, x + tip.offsetWidth + 16 > own.width ? x - tip.offsetWidth - 10 : x + 10)}px`;
    tip.style.top = `${event.clientY - own.top + 14}px`;
  });
}
