
// The flame graph: outer frames above, inner ones below, the widest to the left.
{
const source = document.getElementById("tree");
if (source) flameGraph(JSON.parse(source.textContent));

function flameGraph(tree) {
  // px: of a frame; what is narrower is not drawn; what is narrower than a finger is no button: zoom into the frame around it first
  const HEIGHT = 24, LEAST = 0.4, FINGER = 24;
  const PARENT = 0, NAME = 1, CATEGORY = 2, CALLS = 3, WEIGHTS = 4;
  const HUES = {range: 275, occa: 214, opencl: 168, cuda: 95, hip: 12, mpi: 38, openmp: 322, python: 52, program: 132, device: 190};
  const section = document.getElementById("graph");
  const graph = section.querySelector(".graph"), told = section.querySelector(".told");
  const search = section.querySelector("input[type=search]"), reset = section.querySelector(".reset");
  const measures = Object.keys(tree.measures), nodes = tree.nodes;
  const children = nodes.map(() => []);
  nodes.forEach((node, i) => { if (node[PARENT] >= 0) children[node[PARENT]].push(i); });
  let measure, totals, zoom = 0, matches = null;

  const units = {ns: duration, bytes: size, count: n => n.toLocaleString("en")};
  const value = n => units[tree.measures[measure].unit](n);
  const share = (part, whole) => whole > 0 ? `${(100 * part / whole).toFixed(1)} %` : "–";
  const name = i => tree.names[nodes[i][NAME]];

  function weigh(chosen) {
    measure = chosen;
    const at = WEIGHTS + measures.indexOf(measure);
    totals = nodes.map(node => node[at]);
    for (let i = nodes.length - 1; i > 0; i--) totals[nodes[i][PARENT]] += totals[i];
    children.forEach(list => list.sort((a, b) => totals[b] - totals[a] || a - b));
    document.querySelectorAll("[data-measure]").forEach(button =>
      button.setAttribute("aria-pressed", String(button.dataset.measure === measure)));
    if (!totals[zoom]) zoom = 0;
    draw();
  }

  function describe(i) {
    const own = nodes[i][WEIGHTS + measures.indexOf(measure)], parent = nodes[i][PARENT];
    const parts = [`${value(totals[i])}, ${share(totals[i], totals[0])} of all`];
    if (parent > 0) parts.push(`${share(totals[i], totals[parent])} of ${name(parent)}`);
    parts.push(`itself ${value(own)}`);
    if (nodes[i][CALLS]) parts.push(`${nodes[i][CALLS].toLocaleString("en")} call${nodes[i][CALLS] > 1 ? "s" : ""}`);
    return parts.join(" · ");
  }

  function tell(i) {
    told.replaceChildren();
    if (i !== null) {
      const bold = document.createElement("b");
      bold.textContent = name(i);
      told.append(bold, ` ${describe(i)}`);
    } else if (matches) {
      // A match within a match is in it already.
      let sum = 0;
      const within = nodes.map(() => false);
      nodes.forEach((node, n) => {
        const above = node[PARENT] >= 0 && within[node[PARENT]];
        if (matches.has(node[NAME]) && !above) sum += totals[n];
        within[n] = above || matches.has(node[NAME]);
      });
      told.textContent = `found: ${value(sum)}, ${share(sum, totals[0])} of all`;
    } else {
      told.textContent = `${tree.measures[measure].title}: ${tree.measures[measure].about}. Point at a frame to see its numbers, click to zoom.`;
    }
  }

  function place(list, i, left, width, depth, outer) {
    list.push([i, left, width, depth, outer]);
    if (outer) return depth;
    let deepest = depth;
    for (const child of children[i]) {
      const part = totals[i] ? width * totals[child] / totals[i] : 0;
      if (part * graph.clientWidth < LEAST) break;  // the others are narrower still
      deepest = Math.max(deepest, place(list, child, left, part, depth + 1, false));
      left += part;
    }
    return deepest;
  }

  function draw() {
    const list = [], path = [];
    for (let i = nodes[zoom][PARENT]; i >= 0; i = nodes[i][PARENT]) path.unshift(i);
    path.forEach((i, depth) => place(list, i, 0, 1, depth, true));
    const deepest = place(list, zoom, 0, 1, path.length, false);
    graph.style.height = `${(deepest + 1) * HEIGHT}px`;
    graph.replaceChildren(...list.map(([i, left, width, depth, outer]) => {
      const wide = width * graph.clientWidth >= FINGER;
      const frame = document.createElement(wide ? "button" : "div");
      const category = tree.categories[nodes[i][CATEGORY]];
      if (wide) frame.type = "button";
      else frame.setAttribute("aria-hidden", "true");
      frame.className = "frame";
      frame.classList.toggle("outer", outer);
      frame.classList.toggle("plain", !category);
      frame.classList.toggle("thin", width * graph.clientWidth < 12);
      frame.classList.toggle("found", Boolean(matches && matches.has(nodes[i][NAME])));
      frame.style.cssText = `left:${100 * left}%;width:${100 * width}%;top:${depth * HEIGHT}px`;
      frame.style.setProperty("--h", HUES[category] ?? 214);
      frame.style.setProperty("--d", `${nodes[i][NAME] % 5 * 1.6 - 3}%`);
      frame.textContent = wide ? name(i) : "";
      frame.setAttribute("aria-label", `${name(i)}: ${describe(i)}`);
      frame.dataset.node = i;
      return frame;
    }));
    reset.disabled = zoom === 0;
    tell(null);
  }

  function go(i) {
    zoom = i;
    draw();
    graph.querySelector(`[data-node="${i}"]`).focus({preventScroll: true});
  }

  const at = event => { const frame = event.target.closest(".frame"); return frame ? Number(frame.dataset.node) : null; };
  graph.addEventListener("click", event => { if (at(event) !== null) go(at(event)); });
  graph.addEventListener("pointerover", event => tell(at(event)));
  graph.addEventListener("focusin", event => tell(at(event)));
  graph.addEventListener("pointerleave", () => tell(null));
  reset.addEventListener("click", () => go(0));
  document.addEventListener("keydown", event => { if (event.key === "Escape" && zoom) go(0); });
  search.addEventListener("input", () => {
    const text = search.value.trim(), pattern = /^\/(.+)\/$/.exec(text);
    let test = candidate => candidate.toLowerCase().includes(text.toLowerCase());
    if (pattern) {
      try { const regex = new RegExp(pattern[1], "i"); test = candidate => regex.test(candidate); } catch { return; }
    }
    matches = text ? new Set(tree.names.map((candidate, i) => test(candidate) ? i : -1).filter(i => i >= 0)) : null;
    draw();
  });
  document.querySelectorAll("[data-measure]").forEach(button =>
    button.addEventListener("click", () => weigh(button.dataset.measure)));
  addEventListener("resize", draw);
  weigh(document.querySelector("[data-measure]").dataset.measure);
}
}
