"use strict";
(() => {
  const told = document.getElementById("told");
  const reach = 8; // pixels of the picture around a mark in which the pointer means it
  let lit = null;

  function hide() {
    if (lit) lit.element.classList.remove("on");
    lit = null;
    told.hidden = true;
  }

  // The text goes below the mark, or where the window ends beside it.
  function show(mark) {
    if (mark === lit) return;
    hide();
    lit = mark;
    mark.element.classList.add("on");
    told.textContent = mark.text;
    told.hidden = false;
    const box = mark.element.getBoundingClientRect();
    const left = Math.min(box.left + 14, window.innerWidth - told.offsetWidth - 8);
    const below = box.bottom + 10;
    const top = below + told.offsetHeight > window.innerHeight ? box.top - told.offsetHeight - 10 : below;
    told.style.left = Math.max(8, left) + "px";
    told.style.top = Math.max(8, top) + "px";
  }

  for (const figure of document.querySelectorAll("figure")) {
    const picture = figure.querySelector("svg");
    const marks = Array.from(figure.querySelectorAll(".marks path"), (element) => {
      const title = element.querySelector("title");
      const [, x, , y] = element.getAttribute("d").match(/^M(\S+) (\S+)V(\S+)$/);
      const mark = { element, text: title.textContent, x: Number(x), y: Number(y) };
      title.remove(); // else the browser shows it as well
      return mark;
    });
    marks.sort((a, b) => a.x - b.x);
    if (marks.length === 0) continue;

    figure.tabIndex = 0;
    figure.setAttribute("role", "group");
    figure.setAttribute("aria-label", picture.getAttribute("aria-label"));

    figure.addEventListener("pointermove", (event) => {
      const box = picture.getBoundingClientRect();
      const scale = picture.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * scale;
      const y = (event.clientY - box.top) * scale;
      // Along a mark's whole height it is hit; above its top, taller neighbours are meant rather.
      const far = (mark) => Math.abs(mark.x - x) + Math.max(0, mark.y - y) / 4;
      const near = marks.filter((mark) => Math.abs(mark.x - x) <= reach);
      if (near.length === 0) hide();
      else show(near.reduce((best, mark) => (far(mark) < far(best) ? mark : best)));
    });
    figure.addEventListener("pointerleave", hide);
    figure.addEventListener("blur", hide);
    figure.addEventListener("keydown", (event) => {
      const last = marks.length - 1;
      const at = marks.indexOf(lit);
      const next = {
        ArrowRight: Math.min(at + 1, last),
        ArrowLeft: at < 0 ? last : Math.max(at - 1, 0),
        Home: 0,
        End: last,
      }[event.key];
      if (event.key === "Escape") hide();
      if (next === undefined) return;
      event.preventDefault();
      show(marks[next]);
    });
  }
  window.addEventListener("scroll", hide, { passive: true });
})();
