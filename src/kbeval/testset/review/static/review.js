// Keys, and pages that change in place. Without this file every link and form works as links and forms do.
"use strict";
(() => {
  const NOTE_DELAY = 250; // milliseconds without a key after which a note is kept
  const app = () => document.getElementById("app");
  const help = document.getElementById("help");
  let busy = false;
  let wholeText = false; // whether whole documents are open: kept from one document to the next
  let noteTimer = 0;

  const say = (words) => {
    const trouble = document.getElementById("trouble");
    trouble.textContent = words;
    trouble.hidden = !words;
  };

  // Takes the part of the answer that changes. The page itself stays, so nothing flickers.
  const show = (text, url, push) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    const fresh = page.getElementById("app");
    if (!fresh) {
      window.location.assign(url);
      return;
    }
    app().replaceWith(document.adoptNode(fresh));
    document.title = page.title;
    if (push) history.pushState(null, "", url);
    const whole = document.getElementById("whole");
    if (whole) whole.open = wholeText;
    const first = fresh.querySelector("[autofocus]") || document.getElementById("document");
    if (first) first.focus({ preventScroll: true });
    const current = fresh.querySelector(".documents [aria-current]");
    if (current) current.scrollIntoView({ block: "nearest" });
  };

  const load = async (url, options, push = true) => {
    if (busy) return; // a key that comes twice must not answer a question that nobody has seen
    busy = true;
    try {
      const answer = await fetch(url, options);
      const text = await answer.text();
      if (!answer.ok && answer.status !== 404) throw new Error(text);
      say("");
      show(text, answer.url, push && answer.url !== window.location.href);
    } catch {
      say("This was not saved: kbeval review does not answer. Start it again; what you answered before is safe.");
    } finally {
      busy = false;
    }
  };

  const fields = (form, submitter) => {
    const data = new URLSearchParams(new FormData(form));
    if (submitter && submitter.name) data.set(submitter.name, submitter.value);
    return data;
  };

  const keepNote = (quiet = true) => {
    window.clearTimeout(noteTimer);
    noteTimer = 0;
    const form = document.querySelector("[data-note]");
    if (!form) return Promise.resolve();
    const data = fields(form);
    if (quiet) data.set("quiet", "1");
    return fetch(form.action, { method: "POST", body: data, keepalive: true }).then(
      (answer) => say(answer.ok ? "" : "The note was not saved."),
      () => say("The note was not saved: kbeval review does not answer."),
    );
  };

  const submit = async (form, submitter) => {
    const data = fields(form, submitter);
    if (form.id === "grades") {
      // The note goes with the grade, so that neither can overtake the other.
      const note = document.getElementById("note");
      if (note) data.set("note", note.value);
      window.clearTimeout(noteTimer);
      noteTimer = 0;
    } else if (noteTimer) await keepNote();
    if (form.method === "get") {
      const url = new URL(form.action);
      url.search = data.toString();
      await load(url.href, {});
    } else await load(form.action, { method: "POST", body: data });
  };

  document.addEventListener("submit", (event) => {
    if (event.target.method === "dialog") return;
    event.preventDefault();
    submit(event.target, event.submitter);
  });

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    if (link.hasAttribute("data-help")) {
      if (!help.open) help.showModal();
      return;
    }
    (noteTimer ? keepNote() : Promise.resolve()).then(() => load(link.href, {}));
  });

  document.addEventListener("toggle", (event) => {
    if (event.target.id === "whole") wholeText = event.target.open;
  }, true);

  document.addEventListener("input", (event) => {
    if (event.target.id !== "note") return;
    window.clearTimeout(noteTimer);
    noteTimer = window.setTimeout(keepNote, NOTE_DELAY);
  });

  window.addEventListener("pagehide", () => { if (noteTimer) keepNote(); });
  window.addEventListener("popstate", () => load(window.location.href, {}, false));

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (help.open) {
      if (event.key === "?") { event.preventDefault(); help.close(); }
      return;
    }
    const typing = event.target.matches("input:not([type=hidden]), textarea, select");
    if (typing && event.key !== "Escape") return;
    if (typing) event.target.blur();
    const focus = document.querySelector(`[data-focus-key="${CSS.escape(event.key)}"]`);
    if (focus && !typing) {
      event.preventDefault();
      focus.focus();
      focus.scrollIntoView({ block: "nearest" });
      return;
    }
    const wanted = [...document.querySelectorAll("[data-key]")].find(
      (element) => element.dataset.key.split(" ").includes(event.key),
    );
    if (!wanted || wanted.disabled) return;
    event.preventDefault();
    if (!event.repeat) wanted.click();
  });
})();
