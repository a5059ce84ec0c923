"use strict";
(() => {
  const told = document.getElementById("told");
  const reach = 8; // pixels of the picture around a mark in which the pointer means it
  const together = 2; // points that are no further apart are told together
  const most = 8; // and no more of them than this
  let lit = null;

  function hide() {
    if (lit) lit.element.classList.remove("on");
    lit = null;
    told.hidden = true;
  }

  // The text goes below the mark, or where the window ends beside it.
  function show(mark, marks) {
    if (mark === lit) return;
    hide();
    lit = mark;
    mark.element.classList.add("on");
    const same = (other) => Math.hypot(other.x - mark.x, other.top - mark.top) <= together;
    const texts = mark.point ? shown(marks).filter(same).slice(0, most) : [mark];
    told.textContent = texts.map((each) => each.text).join("\n\n");
    told.hidden = false;
    const box = mark.element.getBoundingClientRect();
    const left = Math.min(box.left + 14, window.innerWidth - told.offsetWidth - 8);
    const below = box.bottom + 10;
    const top = below + told.offsetHeight > window.innerHeight ? box.top - told.offsetHeight - 10 : below;
    told.style.left = Math.max(8, left) + "px";
    told.style.top = Math.max(8, top) + "px";
  }

  // What is not switched off.
  function shown(marks) {
    return marks.filter((mark) => mark.element.getClientRects().length > 0);
  }

  function watch(figure) {
    const picture = figure.querySelector("svg");
    const marks = Array.from(figure.querySelectorAll(".marks path"), (element) => {
      const title = element.querySelector("title");
      if (!title) return null;
      title.remove(); // else the browser shows it as well
      const box = element.getBBox();
      const mark = { element, text: title.textContent, x: box.x + box.width / 2, half: box.width / 2 };
      return Object.assign(mark, { top: box.y, bottom: box.y + box.height, point: element.closest(".points") !== null });
    }).filter((mark) => mark !== null);
    marks.sort((a, b) => a.x - b.x);
    if (marks.length === 0) return;

    figure.tabIndex = 0;
    figure.setAttribute("role", "group");
    figure.setAttribute("aria-label", picture.getAttribute("aria-label"));

    figure.addEventListener("pointermove", (event) => {
      const box = picture.getBoundingClientRect();
      const scale = picture.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * scale;
      const y = (event.clientY - box.top) * scale;
      const beside = (mark) => Math.max(0, Math.abs(mark.x - x) - mark.half);
      const above = (mark) => Math.max(0, mark.top - y, y - mark.bottom);
      // A bar is hit along its whole height; above its top, taller neighbours are meant rather.
      const far = (mark) => beside(mark) + (mark.point ? above(mark) : above(mark) / 4);
      const near = shown(marks.filter((mark) => beside(mark) <= reach && !(mark.point && above(mark) > reach)));
      if (near.length === 0) hide();
      else show(near.reduce((best, mark) => (far(mark) < far(best) ? mark : best)), marks);
    });
    figure.addEventListener("pointerleave", hide);
    figure.addEventListener("blur", hide);
    figure.addEventListener("keydown", (event) => {
      const left = shown(marks);
      const last = left.length - 1;
      const at = left.indexOf(lit);
      const next = {
        ArrowRight: Math.min(at + 1, last),
        ArrowLeft: at < 0 ? last : Math.max(at - 1, 0),
        Home: 0,
        End: last,
      }[event.key];
      if (event.key === "Escape") hide();
      if (next === undefined || last < 0) return;
      event.preventDefault();
      show(left[next], marks);
    });
  }

  document.querySelectorAll("figure").forEach(watch);
  document.addEventListener("shown", (event) => {
    hide();
    event.target.querySelectorAll("figure").forEach(watch);
  });
  // Within the page, or within a box in it.
  window.addEventListener("scroll", hide, { passive: true, capture: true });
})();
