// A form marked `data-live` asks for its own address while its reader types, and the element `id="result"` is replaced by the one
// of the answer; what the answer says beside fields, in elements marked `data-beside`, is taken over too. Without script, or when this
// fails, its button does the same.
(() => {
  const pause = 300; // milliseconds without typing
  let timer = 0;
  let asking = null; // the newest question alone is answered
  let asked = null; // the address that the result is of, or will be: it is not asked for twice

  // Where a picture is wider than its box, the newest comes first.
  const showNewest = (within) => {
    for (const box of within.querySelectorAll("[data-newest]")) box.scrollLeft = box.scrollWidth;
  };
  showNewest(document);
  document.addEventListener("shown", (event) => showNewest(event.target));

  const say = (text) => {
    document.getElementById("said").textContent = text;
  };

  // The fields stay as they are being filled in; only what is said of them changes.
  function beside(note) {
    const old = document.getElementById(note.id);
    if (!old) return;
    old.replaceChildren(...note.childNodes);
    const field = note.classList.contains("fault") && document.querySelector(`input[aria-describedby~="${note.id}"]`);
    if (field) field.setAttribute("aria-invalid", String(old.textContent !== ""));
  }

  async function ask(form, again) {
    const fields = Array.from(new FormData(form)).filter(([, value]) => value !== "");
    const query = new URLSearchParams(fields).toString();
    const address = location.pathname + (query ? "?" + query : "");
    if (address === asked && !again) return;
    asked = address;
    if (asking) asking.abort();
    const mine = (asking = new AbortController());
    const before = document.getElementById("result");
    before.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(address, { signal: mine.signal, headers: { Accept: "text/html" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const result = page.getElementById("result");
      if (!result) throw new Error(answer.status + " " + answer.statusText);
      if (asking !== mine) return;
      before.replaceWith(result);
      for (const note of page.querySelectorAll("[data-beside]")) beside(note);
      history.replaceState(null, "", address);
      result.dispatchEvent(new Event("shown", { bubbles: true }));
      say(result.dataset.said || "The result is new.");
    } catch (fault) {
      if (asking !== mine || fault.name === "AbortError") return;
      asked = null;
      before.removeAttribute("aria-busy");
      say("There was no answer (" + fault.message + "): the button asks again.");
    }
  }

  for (const form of document.querySelectorAll("form[data-live]")) {
    const soon = (wait, again) => {
      clearTimeout(timer);
      timer = setTimeout(() => form.checkValidity() && ask(form, again), wait);
    };
    form.addEventListener("input", () => soon(pause));
    form.addEventListener("change", () => soon(0));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      soon(0, true);
    });
  }
})();
