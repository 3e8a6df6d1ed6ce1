// Draws the charts from the data in the page; one radio group switches what all curves are drawn over.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const hidden = new Map(); // group -> keys that are not shown
  const drawn = new Set();
  let axis = "round";

  const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const paint = (name) => style(`--${name}`); // of the light or of the dark page
  const pale = (colour) => colour + "22"; // the band behind a line
  const place = (k) => document.getElementById(`chart-${k}`);

  function traces(chart) {
    const away = hidden.get(chart.group) || new Set();
    return chart.traces.flatMap((t) => {
      const x = t.shared === undefined ? t.x : data.x[t.shared][axis];
      const colour = paint(t.colour);
      const common = { x, visible: !away.has(t.key), legendgroup: t.key };
      const digits = t.size ? ".0f" : axis === "scalars" ? ".4~s" : ",.6~g";
      const says = chart.even ? "" : `<br>%{x:${digits}} ${unit(chart)}<br>%{y:.2e}`;
      const line = {
        ...common, y: t.y, name: plain(t.key), mode: t.mode, connectgaps: false,
        line: { color: colour, width: 2, dash: t.dash },
        marker: { color: colour, symbol: t.symbol, size: t.size || 6, line: { width: t.small ? 0 : 2, color: colour }, opacity: t.small ? 0.75 : 1 },
        hovertemplate: `<b>%{fullData.name}</b>${says}<extra></extra>`,
      };
      if (!t.low) return [line];
      const edge = { ...common, mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
      return [
        { ...edge, y: t.low },
        { ...edge, y: t.high.map((v, k) => (t.low[k] === null ? null : v)), fill: "tonexty", fillcolor: pale(colour) },
        line,
      ];
    });
  }

  const unit = (chart) => (chart.xtitle ? chart.xtitle : axis === "round" ? chart.unit : data.axes[axis]);
  const over = (chart) => (chart.xtitle || (axis === "round" && chart.unit === "steps" ? "steps" : data.axes[axis]));

  // Powers of ten, or where there are few of them 1, 2, 5 in full.
  function ticks(chart) {
    const values = chart.traces.flatMap((t) => t.y).filter((v) => v > 0);
    const span = Math.log10(Math.max(...values) / Math.min(...values));
    return span > 3 ? { nticks: 7 } : { dtick: "D2", tickformat: "~g" };
  }

  function layout(chart, size) {
    const lines = { gridcolor: style("--grid"), linecolor: style("--quiet"), zeroline: false, automargin: true };
    const text = document.documentElement.classList.contains("printing") ? 9.5 : 13;
    const title = (words) => ({ text: words || "", font: { size: text }, standoff: 8 });
    const log = { type: "log", exponentformat: "power", tickfont: { size: text - 1 }, ...ticks(chart) };
    return {
      ...size, showlegend: false, hovermode: "closest", paper_bgcolor: "transparent", plot_bgcolor: "transparent",
      font: { family: getComputedStyle(document.body).fontFamily, size: text, color: style("--quiet") },
      hoverlabel: { font: { size: 13 }, align: "left" },
      margin: { l: 46, r: 8, t: 8, b: 44 },
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      xaxis: chart.even
        ? { ...lines, showticklabels: false }
        : { ...lines, title: title(over(chart)), nticks: 6, exponentformat: "SI", rangemode: "tozero" },
      yaxis: chart.even
        ? { ...lines, showticklabels: false, scaleanchor: "x" }
        : { ...lines, ...(chart.log ? log : {}), title: title(chart.ytitle) },
    };
  }

  function draw(k) {
    const chart = data.charts[k], div = place(k);
    const size = { width: div.clientWidth, height: div.clientHeight };
    drawn.add(k);
    return Plotly.react(div, traces(chart), layout(chart, size), { displayModeBar: false, responsive: false });
  }
  const redraw = (only = () => true) => Promise.all([...drawn].filter((k) => only(data.charts[k])).map(draw));

  for (const radio of document.querySelectorAll("#axis input")) {
    radio.addEventListener("change", () => {
      axis = radio.value;
      redraw((chart) => !chart.xtitle && !chart.even);
    });
  }
  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const { group, key } = button.dataset, away = hidden.get(group) || new Set();
      hidden.set(group, away);
      const shown = away.has(key);
      if (shown) away.delete(key); else away.add(key);
      button.setAttribute("aria-pressed", String(shown));
      redraw((chart) => chart.group === group);
    });
  }

  document.getElementById("axis").hidden = data.charts.length === 0;

  // A page may hold a hundred charts: each is drawn when it comes near.
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((e) => e.isIntersecting)) {
      near.unobserve(entry.target);
      draw(Number(entry.target.id.slice("chart-".length)));
    }
  }, { rootMargin: "800px" });
  data.charts.forEach((_, k) => near.observe(place(k)));

  let pause;
  addEventListener("resize", () => { clearTimeout(pause); pause = setTimeout(() => redraw(), 120); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("printing");
    data.charts.forEach((_, k) => draw(k));
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    redraw();
  });
})();
