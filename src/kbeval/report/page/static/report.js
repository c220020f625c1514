"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { queries, runs, documents } = data;
  const count = queries.id.length;
  const ROW = 56;
  const $ = (id) => document.getElementById(id);
  const list = $("list"), room = $("room"), detail = $("detail"), status = $("status");
  const make = (name, kind, text) => {
    const made = document.createElement(name);
    if (kind) made.className = kind;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const add = (to, ...made) => { to.append(...made); return to; };
  const wild = (node) => { node.dir = "auto"; return node; };
  const number = (value) => value === null ? "–" : value.toFixed(3);

  for (const run of runs) {
    run.starts = new Int32Array(count + 1);
    for (let i = 0; i < count; i++) run.starts[i + 1] = run.starts[i] + run.lengths[i];
  }
  const ranked = (run, query) => run.documents.slice(run.starts[query], run.starts[query + 1]);
  const value = (run, query) => runs[run].values[query] ?? -1;
  const notAsked = data.reasons.indexOf("not asked");
  const asked = (run, query) => !((runs[run].flags[query] >> notAsked) & 1);
  const found = (run, query) => runs[run].first[query] > 0 && runs[run].first[query] <= data.cut;
  const lost = (run, query) => asked(run, query) && !found(run, query);
  const coded = (column, query) => column.at[query] < 0 ? null : column.names[column.at[query]];
  const isGold = (query) => new Set(queries.gold[query]);

  // Filters: each is a list of [words, test]; the first lets everything through.
  const every = runs.map((_, at) => at);
  const others = (at) => every.filter((other) => other !== at);
  // What a run was not asked it neither lost nor won.
  const whole = runs.every((run) => !run.flags.some((flags) => (flags >> notAsked) & 1));
  const among = (of, q) => whole ? of : of.filter((at) => asked(at, q));
  const all = (of, q, test) => { const those = among(of, q); return those.length > 0 && those.every(test); };
  const byCode = (column) => [["any", null], ...column.names.map((name, code) => [name, (q) => column.at[q] === code]),
    ...(column.at.includes(-1) && column.names.length ? [["not known", (q) => column.at[q] < 0]] : [])];
  const wins = [["any", null]];
  if (runs.length > 1) {
    for (const at of every) {
      wins.push([`${runs[at].name} alone is best`, (q) => asked(at, q) && all(others(at), q, (other) => value(at, q) > value(other, q))]);
    }
    if (runs.length > 2 && runs.length <= 6) {
      for (const a of every) {
        for (const b of others(a)) wins.push([`${runs[a].name} beats ${runs[b].name}`, (q) => asked(a, q) && asked(b, q) && value(a, q) > value(b, q)]);
      }
    }
    wins.push(["they differ", (q) => spread(q) > 0]);
    wins.push(["all equal", (q) => spread(q) === 0]);
  }
  const founds = [["any", null],
    ["every run has gold first", (q) => all(every, q, (at) => runs[at].first[q] === 1)],
    [`found by every run (top ${data.cut})`, (q) => all(every, q, (at) => found(at, q))],
    ["lost by some run", (q) => every.some((at) => lost(at, q))],
    ["lost by every run", (q) => all(every, q, (at) => lost(at, q))],
    ...every.map((at) => [`lost by ${runs[at].name}`, (q) => lost(at, q)]),
    ...(runs.length > 1 ? every.map((at) => [`found by ${runs[at].name} alone`, (q) => found(at, q) && all(others(at), q, (other) => lost(other, q))]) : [])];
  const whys = [["any", null]];
  data.reasons.forEach((words, bit) => {
    const holds = (at, q) => (runs[at].flags[q] >> bit) & 1;
    const having = every.filter((at) => runs[at].flags.some((flags) => (flags >> bit) & 1));
    if (having.length) whys.push([words, (q) => every.some((at) => holds(at, q))]);
    if (having.length && runs.length > 1) {
      for (const at of having) whys.push([`${words}: ${runs[at].name}`, (q) => holds(at, q)]);
    }
  });
  // Below 0 where fewer than two were asked: there is nothing to differ from.
  const spread = (q) => {
    let low = Infinity, high = -Infinity, those = 0;
    for (const at of every) {
      if (!asked(at, q)) continue;
      const v = value(at, q);
      those++;
      if (v < low) low = v;
      if (v > high) high = v;
    }
    return those < 2 ? -1 : high - low;
  };
  const total = (q) => { const those = among(every, q); return those.length ? those.reduce((sum, at) => sum + value(at, q), 0) / those.length : 2; };
  const orders = [["where runs differ most", spread, -1], ["worst first", total, 1], ["by id", null, 1]];
  const filters = { kind: byCode(queries.kind), source: byCode(queries.source), domain: byCode(queries.domain), wins, found: founds, why: whys };
  for (const [id, options] of [...Object.entries(filters), ["order", orders]]) {
    options.forEach(([words], at) => { const option = make("option", "", words); option.value = at; $(id).append(option); });
    if (id !== "order" && options.length < 3) $(id).closest("label").hidden = true, $(id).closest("label").style.display = "none";
  }

  let haystack = null;
  const hay = () => haystack ??= queries.id.map((id, q) =>
    `${id}\n${queries.text[q]}\n${queries.gold[q].map((at) => `${documents.id[at]}\n${documents.title[at] ?? ""}`).join("\n")}`.toLowerCase());
  let keys = null, keyed = -1;
  let shown = [], selected = 0;

  const apply = (keep) => {
    const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const tests = Object.entries(filters).map(([id, options]) => options[+$(id).value][1]).filter(Boolean);
    const texts = words.length ? hay() : null;
    const chosen = shown[selected];
    shown = [];
    for (let q = 0; q < count; q++) {
      if (tests.every((test) => test(q)) && (!texts || words.every((word) => texts[q].includes(word)))) shown.push(q);
    }
    const order = +$("order").value, [, key, sign] = orders[order];
    if (key) {
      if (keyed !== order) { keys = Float64Array.from({ length: count }, (_, q) => key(q)); keyed = order; }
      shown.sort((a, b) => sign * (keys[a] - keys[b]) || a - b);
    }
    const again = keep ? shown.indexOf(chosen) : -1;
    status.textContent = `${shown.length.toLocaleString("en")} of ${count.toLocaleString("en")} questions`;
    room.style.height = `${shown.length * ROW}px`;
    select(again < 0 ? 0 : again, true);
  };

  const draw = () => {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const last = Math.min(shown.length, Math.ceil((list.scrollTop + (list.clientHeight || 600)) / ROW) + 4);
    const rows = [];
    for (let at = first; at < last; at++) {
      const q = shown[at], row = make("div", "row");
      row.id = `row-${at}`;
      row.setAttribute("role", "option");
      row.setAttribute("aria-selected", at === selected);
      row.setAttribute("aria-posinset", at + 1);
      row.setAttribute("aria-setsize", shown.length);
      row.dataset.at = at;
      row.style.top = `${at * ROW}px`;
      const ranks = make("div", "r");
      for (const run of runs.slice(0, 8)) {
        const what = (run.flags[q] & 1) ? "error" : (run.flags[q] >> notAsked) & 1 ? "not asked" : run.first[q] || "–";
        const span = make("span", "", ` ${what}`);
        span.prepend(make("bdi", "", run.short));
        ranks.append(span);
      }
      add(row, wild(make("div", "q", queries.text[q].slice(0, 200) || queries.id[q])), ranks);
      rows.push(row);
    }
    room.replaceChildren(...rows);
    if (shown.length) list.setAttribute("aria-activedescendant", `row-${selected}`);
    else list.removeAttribute("aria-activedescendant");
  };

  const select = (at, quiet) => {
    selected = Math.min(Math.max(at, 0), Math.max(shown.length - 1, 0));
    const top = selected * ROW;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
    draw();
    show(shown[selected]);
    if (!quiet && shown.length) {
      try { history.replaceState(null, "", `#q=${encodeURIComponent(queries.id[shown[selected]])}`); } catch { /* some browsers refuse it for files */ }
    }
  };

  // Words of the question in a text are marked: those of four letters or more, by their first five.
  const stems = (q) => [...new Set((queries.text[q].toLowerCase().match(/[\p{L}\p{N}]{4,}/gu) ?? []).map((word) => word.slice(0, 5)))].slice(0, 60);
  const marked = (text, q) => {
    const made = wild(make("p"));
    const wanted = stems(q);
    let done = 0;
    if (wanted.length) {
      for (const match of text.matchAll(/[\p{L}\p{N}]+/gu)) {
        const word = match[0].toLowerCase();
        if (!wanted.some((stem) => word.startsWith(stem))) continue;
        made.append(text.slice(done, match.index), make("mark", "", match[0]));
        done = match.index + match[0].length;
      }
    }
    made.append(text.slice(done));
    return made;
  };
  const textOf = (document, q) => {
    const text = documents.text[document] ?? "";
    if (!text) {
      const words = documents.known && !documents.known[document] ? "This document is not in the corpus."
        : documents.length[document] ? "Its text is left out, to keep this file small." : documents.known ? "This document has no text." : "Texts are not known without the data set.";
      return make("p", "tag", words);
    }
    const made = marked(text, q);
    const letters = [...text].length;  // as Python counts them
    if (letters < documents.length[document]) {
      made.append(make("span", "tag", ` … the first ${letters.toLocaleString("en")} of ${documents.length[document].toLocaleString("en")} characters`));
    }
    return made;
  };

  let reference = 0;
  const show = (q) => {
    if (q === undefined) { detail.replaceChildren(make("p", "quiet", "No question is left. Clear a filter.")); return; }
    const gold = isGold(q), judged = queries.judged[q], twins = queries.twins[q] ?? {};
    const parts = [];
    const facts = make("p", "facts");
    const overlap = queries.overlap[q];
    for (const [name, words] of [["id", queries.id[q]], ["kind", coded(queries.kind, q)], ["source", coded(queries.source, q)],
      ["domain", coded(queries.domain, q)], ["words shared with gold", overlap === null ? null : `${Math.round(overlap * 100)} %`]]) {
      if (words !== null) facts.append(add(make("span", "", `${name} `), wild(make("bdi", "", words))));
    }
    parts.push(wild(make("p", "question", queries.text[q] || queries.id[q])), facts);
    const box = make("div", "goldbox");
    if (!gold.size) box.append(make("p", "", "No relevant document is known: this question counts with 0."));
    for (const document of queries.gold[q].slice(0, 5)) {
      const name = wild(make("p"));
      add(name, make("strong", "", `Gold: ${documents.title[document] || documents.id[document]}`), make("span", "tag", ` ${documents.id[document]}, grade ${judged[document]}`));
      add(box, name, textOf(document, q));
    }
    const more = queries.golds[q] - Math.min(queries.gold[q].length, 5);
    if (more > 0) box.append(make("p", "tag", `and ${more} more relevant documents`));
    parts.push(box);
    if (runs.length > 1) {
      const chosen = make("select"), label = make("label", "", "Moves against");
      runs.forEach((run, at) => { const option = make("option", "", run.name); option.value = at; chosen.append(option); });
      chosen.value = reference;
      chosen.id = "reference";
      chosen.addEventListener("change", () => { reference = +chosen.value; show(q); $("reference").focus(); });
      parts.push(add(label, chosen));
    }
    const base = new Map(ranked(runs[reference], q).map((document, at) => [document, at + 1]));
    const columns = make("div", "runs");
    runs.forEach((run, at) => columns.append(column(run, at, q, { gold, judged, twins, base })));
    parts.push(columns);
    detail.replaceChildren(...parts);
  };

  const column = (run, at, q, { gold, judged, twins, base }) => {
    const made = make("section", "run");
    made.append(wild(make("h4", "", run.name)));
    const first = run.first[q];
    if (asked(at, q)) made.append(make("p", "facts", `${data.primary} ${number(run.values[q])}; first relevant: ${first ? `rank ${first}` : "none"}`));
    const reasons = data.reasons.filter((_, bit) => (run.flags[q] >> bit) & 1);
    if (reasons.length) {
      const why = make("ul", "why");
      for (const words of reasons) {
        const bit = data.reasons.indexOf(words);
        let more = "";
        if (bit === 0) more = `: ${run.errors[q]}`;
        if (words.startsWith("gold below") && run.uncut[q]) more = ` (rank ${run.uncut[q]})`;
        else if (words.startsWith("gold below")) more = ` (${run.lengths[q]} shown)`;
        why.append(wild(make("li", "", words + more)));
      }
      made.append(why);
    }
    if (run.stages && asked(at, q)) {
      made.append(make("p", "tag", `Rank of the gold by stage: ${run.stages.names.map((name, stage) => `${name} ${run.stages.ranks[q][stage] ?? "–"}`).join(", ")}`));
    }
    const ranks = make("ol", "ranks");
    ranked(run, q).forEach((document, place) => {
      const hit = make("button", gold.has(document) ? "hit gold" : "hit");
      hit.type = "button";
      hit.dataset.document = document;
      hit.setAttribute("aria-expanded", "false");
      const was = base.get(document), rank = place + 1;
      let move = "", kind = "m";
      if (at !== reference && asked(reference, q)) {
        if (was === undefined) move = "new";
        else if (was > rank) [move, kind] = [`▲${was - rank}`, "m up"];
        else if (was < rank) [move, kind] = [`▼${rank - was}`, "m down"];
        else move = "=";
      }
      const name = wild(make("span", "d", documents.title[document] || documents.id[document]));
      const tags = [];
      if (gold.has(document)) tags.push(`★ gold`);
      else if (judged[document] >= data.level) tags.push("★ relevant");
      else if (judged[document] >= 0) tags.push(`judged ${judged[document]}`);
      if (twins[document]) tags.push(`≈ holds ${Math.round(twins[document] * 100)} % of a gold passage`);
      if (tags.length) name.append(make("span", "tag", ` ${tags.join(", ")}`));
      const moved = make("span", kind, move);
      if (move && move !== "new") moved.setAttribute("aria-label", move === "=" ? "same rank" : kind === "m up" ? `up ${was - rank}` : `down ${rank - was}`);
      add(hit, make("span", "n", `${rank}`), name, moved);
      ranks.append(add(make("li"), hit));
    });
    if (!run.lengths[q] && asked(at, q)) made.append(make("p", "tag", "No documents."));
    made.append(ranks);
    return made;
  };

  // A document that the pointer or the focus is on is marked in every run; a press opens its text.
  const point = (event) => {
    const hit = event.target.closest?.(".hit");
    for (const each of detail.querySelectorAll(".hit")) each.classList.toggle("same", !!hit && each.dataset.document === hit.dataset.document);
  };
  detail.addEventListener("pointerover", point);
  detail.addEventListener("focusin", point);
  detail.addEventListener("click", (event) => {
    const hit = event.target.closest(".hit");
    if (!hit) return;
    const open = hit.getAttribute("aria-expanded") === "true";
    hit.setAttribute("aria-expanded", String(!open));
    if (open) { hit.nextElementSibling.remove(); return; }
    const document = +hit.dataset.document, text = make("div", "text");
    add(text, wild(make("p", "tag", documents.id[document])), textOf(document, shown[selected]));
    hit.after(text);
  });

  let waiting = 0;
  list.addEventListener("scroll", () => { waiting ||= requestAnimationFrame(() => { waiting = 0; draw(); }); }, { passive: true });
  list.addEventListener("click", (event) => { const row = event.target.closest(".row"); if (row) select(+row.dataset.at); });
  const page = () => Math.max(1, Math.floor(list.clientHeight / ROW) - 1);
  const moves = { ArrowDown: () => 1, ArrowUp: () => -1, PageDown: page, PageUp: () => -page(), Home: () => -Infinity, End: () => Infinity };
  list.addEventListener("keydown", (event) => {
    const move = moves[event.key];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    select(selected + move());
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input,select,textarea")) return;
    if (event.key === "/") { event.preventDefault(); $("search").focus(); $("search").select(); }
    if (event.key === "j" || event.key === "k") {
      event.preventDefault();
      const within = detail.contains(document.activeElement);
      select(selected + (event.key === "j" ? 1 : -1));
      if (within) list.focus({ preventScroll: true });  // what had the focus is gone
    }
  });
  const form = $("filters");
  form.addEventListener("input", () => apply(true));
  form.addEventListener("submit", (event) => { event.preventDefault(); list.focus(); });
  const firstOrder = runs.length < 2 ? 1 : 0;
  form.addEventListener("reset", () => setTimeout(() => { $("order").value = firstOrder; apply(true); }));
  $("search").addEventListener("keydown", (event) => { if (event.key === "ArrowDown") { event.preventDefault(); list.focus(); } });
  addEventListener("resize", draw);

  const limits = [`Lists show the first ${data.depth} documents; ▲ ▼ say how many ranks higher or lower than in the run that is compared against, “new” that it is not in that run's first ${data.depth}.`,
    `Found means a relevant document within the first ${data.cut}.`];
  if (data.limits[0]) limits.push(`Texts of gold documents are cut at ${data.limits[0].toLocaleString("en")} characters, those of others ${data.limits[1] ? `at ${data.limits[1].toLocaleString("en")}` : "are left out, to keep this file small"}.`);
  if (data.looked) limits.push(`Near-duplicates of the gold (half a passage of it or more) were looked for among the first ${data.looked} answers.`);
  else limits.push("Near-duplicates of the gold were not looked for: the texts are not at hand, or too many.");
  $("limits").textContent = limits.join(" ");
  form.hidden = false;
  $("panes").hidden = false;
  $("order").value = firstOrder;
  apply(false);
  const wanted = () => {
    const named = /^#q=(.*)$/.exec(location.hash);
    if (!named) return;
    let id = "";
    try { id = decodeURIComponent(named[1]); } catch { return; }
    const place = () => shown.findIndex((q) => queries.id[q] === id);
    if (place() < 0 && queries.id.includes(id)) {  // a filter hides it
      for (const each of [...Object.keys(filters), "search"]) $(each).value = each === "search" ? "" : 0;
      apply(false);
    }
    const at = place();
    if (at >= 0) { select(at, true); $("explorer").scrollIntoView(); }
  };
  addEventListener("hashchange", wanted);
  // On paper every table is open.
  const closed = () => document.querySelectorAll("details:not([open])");
  addEventListener("beforeprint", () => { for (const each of closed()) { each.open = true; each.dataset.printed = ""; } });
  addEventListener("afterprint", () => { for (const each of document.querySelectorAll("[data-printed]")) { each.open = false; delete each.dataset.printed; } });
  wanted();
})();
