// The charts of a page, and its controls: one radio group switches what all curves are drawn over.
"use strict";
const Page = (() => {
  const NEAR = 800; // pixels below the window within which charts are drawn
  const hidden = new Map(); // group -> keys that are not shown
  let axis = null, data = { charts: [] }, near = null;

  const place = (k) => document.getElementById(`chart-${k}`);
  const drawn = () => data.charts.map((_, k) => k).filter((k) => place(k)?.frame);

  function view(chart) {
    const over = axis === "round" && chart.unit === "steps" ? "steps" : data.axes[axis];
    return {
      hidden: hidden.get(chart.group) || new Set(),
      xtitle: chart.xtitle || over,
      unit: chart.xtitle || (axis === "round" ? chart.unit : data.axes[axis]),
      short: (axis === "scalars" || axis === "bytes") && !chart.xtitle,
    };
  }

  function draw(k) {
    const chart = data.charts[k];
    const traces = chart.traces.map((t) => (t.shared === undefined ? t : { ...t, x: data.x[t.shared][axis] }));
    Charts.draw(place(k), { ...chart, traces }, view(chart));
  }
  const redraw = (only = () => true) => drawn().filter((k) => only(data.charts[k])).forEach(draw);

  // Fills the placeholders in the page with these data, and makes its controls work; again after each change.
  function bind(content) {
    data = content;
    axis ??= document.querySelector("#axis input:checked")?.value ?? "round";
    for (const radio of document.querySelectorAll("#axis input")) {
      radio.checked = radio.value === axis;
      radio.addEventListener("change", () => {
        axis = radio.value;
        redraw((chart) => {
          const over = !chart.xtitle && !chart.even;
          if (over) place(data.charts.indexOf(chart)).zoom = null;
          return over;
        });
      });
    }
    for (const button of document.querySelectorAll(".legend button")) {
      const { group, key } = button.dataset;
      button.setAttribute("aria-pressed", String(!hidden.get(group)?.has(key)));
      button.addEventListener("click", () => {
        const away = hidden.get(group) || new Set(), shown = away.has(key);
        hidden.set(group, away);
        if (shown) away.delete(key); else away.add(key);
        button.setAttribute("aria-pressed", String(shown));
        redraw((chart) => chart.group === group);
      });
    }
    const control = document.getElementById("axis");
    if (control) control.hidden = !data.charts.some((chart) => !chart.xtitle && !chart.even);
    // A page may hold a hundred charts: each is drawn when it comes near.
    near?.disconnect();
    near = new IntersectionObserver((entries) => {
      for (const entry of entries.filter((e) => e.isIntersecting)) {
        near.unobserve(entry.target);
        draw(Number(entry.target.id.slice("chart-".length)));
      }
    }, { rootMargin: `${NEAR}px` });
    data.charts.forEach((_, k) => {
      const { top, bottom } = place(k).getBoundingClientRect();
      if (bottom > -NEAR && top < innerHeight + NEAR) draw(k); else near.observe(place(k));
    });
  }

  let pause;
  addEventListener("resize", () => { clearTimeout(pause); pause = setTimeout(() => redraw(), 120); });
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("printing");
    data.charts.forEach((_, k) => draw(k));
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    redraw();
  });
  return { bind };
})();
Page.bind(JSON.parse(document.getElementById("data").textContent));
