// Asks every two seconds whether the files have changed, and shows the new page in the place of the old one.
// What a reader has done stays: open parts, hidden lines, the axis, the focus of the keyboard.
"use strict";
(() => {
  const EVERY = 2000; // milliseconds
  const main = document.querySelector("main"), connection = document.getElementById("connection");
  let mark = document.body.dataset.mark, lost = false;

  const spell = (seconds) => {
    if (seconds < 60) return `${Math.floor(seconds)} s ago`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
    return null; // the date says more
  };

  function tellTimes() {
    for (const time of document.querySelectorAll("time")) {
      const seconds = Math.max(0, (Date.now() - Date.parse(time.dateTime)) / 1000);
      if (Number.isNaN(seconds)) continue;
      time.dataset.full ??= time.textContent;
      const late = Number(time.dataset.late) > 0 && seconds > Number(time.dataset.late);
      time.classList.toggle("late", late);
      time.textContent = (spell(seconds) ?? time.dataset.full) + (late ? ": it may have been killed" : "");
    }
  }

  const name = (e) => `${e.tagName} ${e.closest("section")?.querySelector("h1, h2, h3")?.textContent ?? ""} ${e.value ?? ""} ${e.textContent}`;

  function show(page) {
    const open = new Set([...main.querySelectorAll("details[open] > summary")].map(name));
    const focus = main.contains(document.activeElement) ? name(document.activeElement) : null;
    const zooms = new Map([...main.querySelectorAll(".chart")].map((div) => [div.id, div.zoom]));
    document.title = `${page.title} | DESTINY`;
    main.innerHTML = page.body; // made by our own server, which escapes all text of files
    for (const summary of main.querySelectorAll("summary")) summary.parentElement.open = open.has(name(summary));
    for (const div of main.querySelectorAll(".chart")) div.zoom = zooms.get(div.id);
    Page.bind(page.data);
    if (focus !== null) {
      [...main.querySelectorAll("a, button, input, summary")].find((e) => name(e) === focus)?.focus({ preventScroll: true });
    }
  }

  function say(words) {
    if (connection.textContent !== words) connection.textContent = words; // screen readers hear changes only
  }

  async function ask() {
    try {
      const answer = await fetch(`${location.pathname}?json`, { headers: { "If-None-Match": `"${mark}"` } });
      if (answer.status === 200) {
        mark = answer.headers.get("ETag").replaceAll('"', "");
        show(await answer.json());
      }
      lost = false;
      say(answer.status === 404 ? "This folder is gone." : "Live.");
    } catch {
      lost = true;
      say("The server has ended: this is what was last seen.");
    }
    tellTimes();
    setTimeout(ask, lost ? 3 * EVERY : EVERY);
  }

  tellTimes();
  setTimeout(ask, EVERY);
})();
