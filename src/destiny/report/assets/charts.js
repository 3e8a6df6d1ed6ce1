// Charts as SVG from plain data: lines with bands, marks, a logarithmic or a linear axis, an even plane.
// Colors are variables of the page's style, so that light, dark and print need no other drawing.
"use strict";
const Charts = (() => {
  const SPACE = "http://www.w3.org/2000/svg";
  const DASHES = { dash: "7 4", dashdot: "8 4 2 4", dot: "2 4" };
  const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const NEAR = 40; // pixels within which a point answers
  const DRAG = 8; // pixels that make a press a drag
  let count = 0; // of clip paths, whose names must differ

  function element(name, attributes = {}, ...inside) {
    const made = document.createElementNS(SPACE, name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value !== undefined && value !== null) made.setAttribute(key, value);
    }
    made.append(...inside);
    return made;
  }

  // ------------------------------------------------------------------------------------------- numbers

  const power = (k) => "10" + String(k).replace("-", "⁻").replace(/\d/g, (digit) => SUPERSCRIPTS[digit]);
  const plain = (value) => value.toLocaleString("en", { maximumSignificantDigits: 6 });

  function short(value) { // 12000 is 12k
    const size = Math.abs(value);
    for (const [unit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (size >= unit) return `${Number((value / unit).toPrecision(4))}${letter}`;
    }
    return String(Number(value.toPrecision(4)));
  }

  function linearTicks(low, high, most) {
    const rough = (high - low) / Math.max(1, most), base = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * base).find((k) => k >= rough * 0.999);
    const ticks = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-12) + 1e-12 * step; k += 1) ticks.push(k * step);
    return ticks.map((value) => ({ at: value, text: short(value) }));
  }

  // Powers of ten, or where there are few of them 1, 2, 5 in full; positions are logarithms.
  function logTicks(low, high) {
    const ticks = [];
    if (high - low > 3) {
      const step = Math.ceil((high - low) / 6);
      for (let k = Math.ceil(low / step) * step; k <= high; k += step) ticks.push({ at: k, text: power(k) });
      return ticks;
    }
    for (let k = Math.floor(low); k <= high; k += 1) {
      for (const digit of high - low > 1 ? [1, 2, 5] : [1, 2, 3, 4, 5, 7]) {
        const at = k + Math.log10(digit), small = k < -3 || k > 4;
        const text = small ? (digit > 1 ? `${digit}·` : "") + power(k) : String(Number((digit * 10 ** k).toPrecision(2)));
        if (at >= low && at <= high) ticks.push({ at, text });
      }
    }
    return ticks;
  }

  function range(values, zero = false) {
    let low = Infinity, high = -Infinity;
    for (const value of values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
    if (zero && low > 0) low = 0;
    if (!(high >= low)) return [0, 1];
    const pad = high > low ? 0.04 * (high - low) : 0.5;
    return [zero && low === 0 ? 0 : low - pad, high + pad];
  }

  // ------------------------------------------------------------------------------------------- marks

  const polygon = (r, turn, corners, inner = 1) => Array.from({ length: corners }, (_, k) => {
    const angle = turn + (2 * Math.PI * k) / corners, size = inner < 1 && k % 2 ? r * inner : r;
    return `${k ? "L" : "M"}${(size * Math.sin(angle)).toFixed(2)} ${(-size * Math.cos(angle)).toFixed(2)}`;
  }).join("") + "Z";
  const SHAPES = {
    circle: (r) => `M${r} 0A${r} ${r} 0 1 1 ${-r} 0A${r} ${r} 0 1 1 ${r} 0Z`,
    square: (r) => polygon(r * 1.25, Math.PI / 4, 4),
    diamond: (r) => polygon(r * 1.3, 0, 4),
    "triangle-up": (r) => polygon(r * 1.25, 0, 3),
    cross: (r) => `M${-r} 0H${r}M0 ${-r}V${r}`,
    x: (r) => `M${-r} ${-r}L${r} ${r}M${-r} ${r}L${r} ${-r}`,
    star: (r) => polygon(r * 1.3, 0, 10, 0.45),
  };
  const strokes = (symbol) => symbol === "cross" || symbol === "x"; // shapes without an inside

  function marks(trace, points) {
    const open = trace.symbol.endsWith("-open"), symbol = trace.symbol.replace("-open", "");
    const shape = SHAPES[symbol]((trace.size || 6) / 2), color = `var(--${trace.color})`;
    const filled = !open && !strokes(symbol);
    const group = element("g", {
      class: "marks", "data-key": trace.key, fill: filled ? color : "none",
      stroke: filled && trace.small ? "none" : color, "stroke-width": strokes(symbol) ? 1.8 : 1.5,
      opacity: trace.small ? 0.75 : 1,
    });
    for (const [x, y] of points) group.append(element("path", { d: shape, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` }));
    return group;
  }

  // ------------------------------------------------------------------------------------------- a chart

  // chart: traces (key, color, mode, x, y, low, high, dash, symbol, size, small), log, even, xtitle, ytitle.
  // view: hidden (a set of keys), xtitle, unit, tell (a number of the x axis in words).
  function draw(div, chart, view) {
    const width = div.clientWidth, height = div.clientHeight;
    const traces = chart.traces.filter((trace) => !view.hidden.has(trace.key));
    const shown = traces.length ? traces : chart.traces; // axes stay when everything is hidden
    const up = chart.log ? (value) => (value > 0 ? Math.log10(value) : NaN) : (value) => (value === null ? NaN : value);
    const valid = (values) => values.filter((value) => Number.isFinite(value));
    const xs = valid(shown.flatMap((trace) => trace.x).filter((value) => value !== null));
    const ys = valid(shown.flatMap((trace) => [...trace.y, ...(trace.low || []), ...(trace.high || [])]).map(up));
    let [x0, x1] = range(xs, !chart.even), [y0, y1] = range(ys);
    if (div.zoom) [x0, x1, y0, y1] = div.zoom;
    const yticks = chart.even ? [] : chart.log ? logTicks(y0, y1) : linearTicks(y0, y1, 6);
    const text = parseFloat(getComputedStyle(div).fontSize) || 13;
    const room = Math.max(2, ...yticks.map((tick) => tick.text.length)) * text * 0.62;
    const left = chart.even ? 8 : room + 12 + (chart.ytitle ? 1.6 * text : 0), right = 10, top = 8;
    const bottom = chart.even ? 8 : 3.3 * text;
    const inner = Math.max(10, width - left - right), tall = Math.max(10, height - top - bottom);
    if (chart.even && !div.zoom) { // a unit is as long in both directions
      const scale = Math.max((x1 - x0) / inner, (y1 - y0) / tall), x = (x0 + x1) / 2, y = (y0 + y1) / 2;
      [x0, x1, y0, y1] = [x - scale * inner / 2, x + scale * inner / 2, y - scale * tall / 2, y + scale * tall / 2];
    }
    const px = (value) => left + ((value - x0) / (x1 - x0)) * inner;
    const py = (value) => top + (1 - (up(value) - y0) / (y1 - y0)) * tall;
    const xticks = chart.even ? [] : linearTicks(x0, x1, Math.min(6, inner / (4 * text)));

    const clip = `clip-${count += 1}`;
    const svg = element("svg", { class: "plot", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
      element("clipPath", { id: clip }, element("rect", { x: left - 4, y: top - 4, width: inner + 8, height: tall + 8 })));
    for (const tick of yticks) {
      const y = top + (1 - (tick.at - y0) / (y1 - y0)) * tall;
      svg.append(element("path", { class: "grid y", d: `M${left} ${y}H${left + inner}`, "data-at": tick.at }),
        element("text", { class: "tick y", x: left - 7, y: y + 0.35 * text, "text-anchor": "end" }, tick.text));
    }
    for (const tick of xticks) {
      svg.append(element("path", { class: "grid x", d: `M${px(tick.at)} ${top}V${top + tall}`, "data-at": tick.at }),
        element("text", { class: "tick x", x: px(tick.at), y: top + tall + 1.35 * text, "text-anchor": "middle" }, tick.text));
    }
    if (!chart.even) {
      svg.append(element("path", { class: "axis", d: `M${left} ${top}V${top + tall}H${left + inner}` }),
        element("text", { class: "title x", x: left + inner / 2, y: top + tall + 2.8 * text, "text-anchor": "middle" }, view.xtitle || ""));
      if (chart.ytitle) {
        const middle = top + tall / 2;
        svg.append(element("text", { class: "title y", x: text, y: middle, "text-anchor": "middle", transform: `rotate(-90 ${text} ${middle})` }, chart.ytitle));
      }
    }
    const plane = element("g", { "clip-path": `url(#${clip})` });
    const points = [];
    for (const trace of traces) {
      if (trace.low) plane.append(band(trace, px, py));
      const own = trace.y.map((y, k) => [px(trace.x[k]), py(y), k]).filter((p) => Number.isFinite(p[0]) && Number.isFinite(p[1]));
      points.push(...own.map(([x, y, k]) => ({ x, y, k, trace })));
      if (trace.mode !== "markers") {
        plane.append(element("path", {
          class: "line", "data-key": trace.key, d: line(trace, px, py), stroke: `var(--${trace.color})`,
          "stroke-dasharray": DASHES[trace.dash],
        }));
      }
      if (trace.symbol) plane.append(marks(trace, own)); // also of lines with few points: one alone cannot be seen
    }
    svg.append(plane);
    div.querySelector("svg.plot")?.remove();
    div.prepend(svg);
    div.frame = { left, top, inner, tall, x: [x0, x1], y: [y0, y1], points, chart, view };
    if (!div.dataset.ready) listen(div);
  }

  function line(trace, px, py) {
    let path = "", pen = false;
    trace.y.forEach((value, k) => {
      const x = px(trace.x[k]), y = py(value), there = Number.isFinite(x) && Number.isFinite(y);
      if (there) path += `${pen ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`;
      pen = there;
    });
    return path;
  }

  function band(trace, px, py) {
    const high = [], low = [];
    trace.x.forEach((x, k) => {
      const [a, b] = [py(trace.low[k]), py(trace.high[k])];
      if (!Number.isFinite(a) || !Number.isFinite(b)) return;
      high.push(`${px(x).toFixed(2)} ${b.toFixed(2)}`);
      low.unshift(`${px(x).toFixed(2)} ${a.toFixed(2)}`);
    });
    return element("path", { class: "band", "data-key": trace.key, fill: `var(--${trace.color})`, d: high.length ? `M${[...high, ...low].join("L")}Z` : "" });
  }

  // ------------------------------------------------------------------------------------------- the pointer

  function listen(div) {
    div.dataset.ready = "yes";
    let pressed = null, box = null;
    const place = (event) => {
      const edge = div.getBoundingClientRect();
      return [event.clientX - edge.x, event.clientY - edge.y];
    };
    div.addEventListener("pointermove", (event) => {
      const [x, y] = place(event);
      if (pressed) {
        box = box || div.querySelector("svg.plot").appendChild(element("rect", { class: "selection" }));
        const values = { x: Math.min(x, pressed[0]), y: Math.min(y, pressed[1]), width: Math.abs(x - pressed[0]), height: Math.abs(y - pressed[1]) };
        for (const [key, value] of Object.entries(values)) box.setAttribute(key, value);
      } else tell(div, x, y);
    });
    div.addEventListener("pointerleave", () => { if (!pressed) hush(div); });
    div.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse") { tell(div, ...place(event)); return; } // a finger scrolls
      if (event.button === 0) { pressed = place(event); hush(div); div.setPointerCapture(event.pointerId); event.preventDefault(); }
    });
    div.addEventListener("pointerup", (event) => {
      if (!pressed) return;
      const [a, b] = [pressed, place(event)];
      pressed = null;
      box?.remove();
      box = null;
      zoom(div, a, b);
    });
    div.addEventListener("pointercancel", () => { pressed = null; box?.remove(); box = null; });
    div.addEventListener("dblclick", () => { div.zoom = null; again(div); });
  }

  const again = (div) => draw(div, div.frame.chart, div.frame.view);

  function zoom(div, a, b) {
    const { left, top, inner, tall, x, y } = div.frame;
    const wide = Math.abs(a[0] - b[0]) > DRAG, high = Math.abs(a[1] - b[1]) > DRAG;
    if (!wide && !high) return;
    const cut = (value) => Math.min(1, Math.max(0, value));
    const part = (p, q, start, size, [low, end]) => [p, q].map((v) => low + cut((v - start) / size) * (end - low)).sort((v, w) => v - w);
    const [x0, x1] = wide ? part(a[0], b[0], left, inner, x) : x;
    const [y0, y1] = high ? part(top + tall - a[1], top + tall - b[1], 0, tall, y) : y;
    if (x1 > x0 && y1 > y0) { div.zoom = [x0, x1, y0, y1]; again(div); }
  }

  function tell(div, x, y) {
    const { points, chart, view } = div.frame;
    let best = null, least = NEAR ** 2;
    for (const point of points) {
      const far = (point.x - x) ** 2 + (point.y - y) ** 2;
      if (far < least) [best, least] = [point, far];
    }
    if (!best) { hush(div); return; }
    const { trace, k } = best, label = div.querySelector(".hover") || div.appendChild(document.createElement("div"));
    label.className = "hover";
    const name = document.createElement("b");
    name.textContent = trace.key;
    label.replaceChildren(name);
    if (!chart.even) {
      const at = trace.size ? String(Math.round(trace.x[k])) : view.short ? short(trace.x[k]) : plain(trace.x[k]);
      label.append(document.createElement("br"), `${at} ${view.unit}`, document.createElement("br"), trace.y[k].toExponential(2));
    }
    const right = best.x > div.clientWidth / 2;
    label.style.left = right ? "" : `${best.x + 12}px`;
    label.style.right = right ? `${div.clientWidth - best.x + 12}px` : "";
    label.style.top = `${Math.max(0, Math.min(best.y - 20, div.clientHeight - label.offsetHeight))}px`;
  }

  const hush = (div) => div.querySelector(".hover")?.remove();

  return { draw };
})();
