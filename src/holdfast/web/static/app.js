// What pages do beyond HTML: live values, the state of the server, keys, charts, confirmation.
// All pages can be read without it. Text of the server is never made markup here: fragments come
// from our own templates, which escape it.
"use strict";
(() => {
  const $ = (selector, from = document) => from.querySelector(selector);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  // -- the server, and the dashboard itself -----------------------------------------------------

  const away = $("#away");
  const state = $("#state");
  let wasAway = false;
  let stream = null;
  let retry = 0;

  function say(sentence) {
    if (away) {
      away.textContent = sentence;
      away.hidden = !sentence;
    }
    if (state) {
      state.textContent = sentence ? "away" : "live";
      state.className = "state " + (sentence ? "bad" : "good");
    }
    document.body.classList.toggle("is-away", Boolean(sentence));
  }

  function onStatus(status) {
    // Sessions end with the dashboard, and the forms of this page belong to an old session.
    if (status.run !== document.body.dataset.run) { location.reload(); return; }
    if (!status.up) {
      wasAway = true;
      const since = status.since ? " since " + clock(new Date(1000 * status.since)) : "";
      say("The server does not answer" + since + ": " + status.trouble + ". The page goes on when it is back.");
      return;
    }
    say("");
    if (wasAway) {
      wasAway = false;
      back();
    }
  }

  function back() {
    if ($("[data-away]")) location.reload();
    else all("[data-refresh]").forEach((part) => refresh(part));
  }

  function open() {
    if (stream || document.hidden || document.body.dataset.events === "none") return;
    stream = new EventSource("/events?kind=" + document.body.dataset.events);
    stream.addEventListener("status", (event) => { retry = 0; onStatus(JSON.parse(event.data)); });
    stream.addEventListener("figures", (event) => {
      const part = $("[data-live=figures]");
      if (part) { part.innerHTML = event.data; localise(part); stack(part); }
    });
    stream.addEventListener("signed-out", () => location.reload());
    stream.onerror = () => {
      if (!stream || stream.readyState !== EventSource.CLOSED) {
        wasAway = true;
        say("The dashboard does not answer. The page goes on when it is back.");
        return;
      }
      close();
      wasAway = true;
      setTimeout(reopen, Math.min(500 * 2 ** retry++, 5000));
    };
  }

  async function reopen() {
    try {
      const answer = await fetch("/alive", { cache: "no-store" });
      if (answer.status === 204) { location.reload(); return; }
    } catch { /* not yet */ }
    say("The dashboard does not answer. The page goes on when it is back.");
    setTimeout(reopen, Math.min(500 * 2 ** retry++, 5000));
  }

  function close() {
    if (stream) stream.close();
    stream = null;
  }

  // A hidden tab keeps no connection, because a browser has six of them for one address.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  if ($("#state") && ($("nav.side") || $("[data-away]"))) {
    if ($("[data-away]")) setInterval(checkBack, 2000);
    else open();
  }

  async function checkBack() {
    try {
      const answer = await fetch(location.href, { cache: "no-store", headers: { accept: "text/html" } });
      if (answer.status !== 503) location.reload();
    } catch { /* not yet */ }
  }

  // -- parts of a page that are loaded again ----------------------------------------------------

  async function refresh(part) {
    if (document.hidden || !part.id || part.contains(document.activeElement)) return;
    try {
      const answer = await fetch(location.href, { cache: "no-store", headers: { "x-refresh": "1" } });
      if (!answer.ok || answer.redirected) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById(part.id);
      if (!fresh) return;
      part.replaceChildren(...fresh.childNodes);
      localise(part);
      charts(part);
      stack(part);
    } catch { /* the stream says that the dashboard is away */ }
  }
  // The next load begins some time after the last answer; the longer the answer took, the longer
  // this time. So a slow dashboard or server gets fewer requests, and they never pile up.
  const PATIENCE = 10;
  async function keepFresh(part) {
    const begun = performance.now();
    await refresh(part);
    const pause = Math.max(1000 * Number(part.dataset.refresh), PATIENCE * (performance.now() - begun));
    setTimeout(keepFresh, pause, part);
  }
  all("[data-refresh]").forEach((part) => {
    setTimeout(keepFresh, 1000 * Number(part.dataset.refresh), part);
  });

  // -- times in the zone of the reader ----------------------------------------------------------

  const two = (number) => String(number).padStart(2, "0");
  const clock = (at) => two(at.getHours()) + ":" + two(at.getMinutes()) + ":" + two(at.getSeconds());

  function localise(from) {
    all("time[datetime]", from).forEach((each) => {
      const moment = new Date(each.dateTime);
      if (Number.isNaN(moment.valueOf())) return;
      each.title = each.dateTime;
      each.textContent = moment.getFullYear() + "-" + two(moment.getMonth() + 1) + "-" +
        two(moment.getDate()) + " " + clock(moment);
    });
  }
  localise(document);

  // -- tables on a phone: where columns would be cut off, each row is a card ----------------------

  const phone = matchMedia("(max-width: 820px)");
  function stack(from) {
    all("table", from).forEach((table) => {
      table.classList.remove("stacked");
      if (!phone.matches || table.scrollWidth <= table.clientWidth) return;
      const names = all("thead th", table).map((each) => each.textContent);
      all("tbody tr", table).forEach((row) => [...row.cells].forEach((cell, n) => {
        cell.dataset.label = names[n] ?? "";
        cell.classList.toggle("nothing", ["", "–"].includes(cell.textContent.trim()));
      }));
      table.classList.add("stacked");
    });
  }
  stack(document);
  addEventListener("resize", () => stack(document));

  // -- charts: the values under the pointer -----------------------------------------------------

  function charts(from) {
    all("svg[data-chart]", from).forEach((drawing) => {
      const data = JSON.parse(drawing.dataset.chart);
      const caption = $("figcaption", drawing.parentElement);
      const read = document.createElement("span");
      read.className = "reading";
      if (caption) caption.append(read);
      const box = drawing.viewBox.baseVal;
      const left = Number(drawing.dataset.left);
      const width = box.width - left - Number(drawing.dataset.right);
      drawing.addEventListener("pointermove", (event) => {
        const frame = drawing.getBoundingClientRect();
        const x = (event.clientX - frame.left) / frame.width * box.width;
        const count = data.lines[0].texts.length;
        const n = Math.round((x - left) / width * (count - 1));
        if (n < 0 || n >= count) return;
        const at = new Date(1000 * (data.first_s + n * data.step_s));
        const values = data.lines.map((line) => line.label + " " + (line.texts[n] ?? "–"));
        read.textContent = values.join(", ") + " at " + at.toLocaleTimeString();
        const place = left + width * n / Math.max(count - 1, 1);
        const cursor = $(".cursor", drawing);
        cursor.setAttribute("x1", place);
        cursor.setAttribute("x2", place);
      });
      drawing.addEventListener("pointerleave", () => {
        read.textContent = "";
        const cursor = $(".cursor", drawing);
        cursor.setAttribute("x1", -9);
        cursor.setAttribute("x2", -9);
      });
    });
  }
  charts(document);

  // -- forms: ask before something is lost, send once -------------------------------------------

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.dataset.confirm && !confirm(form.dataset.confirm)) {
      event.preventDefault();
      return;
    }
    if (form.method === "post") {
      if (form.dataset.sent) event.preventDefault();
      form.dataset.sent = "yes";
    }
  });
  all("[data-submit]").forEach((input) => input.addEventListener("change", () => input.form.requestSubmit()));
  addEventListener("pageshow", () => all("form[data-sent]").forEach((form) => delete form.dataset.sent));

  // -- the console: completion, the lines of before ---------------------------------------------

  const line = $("#line");
  if (line) {
    const list = $("#commands");
    let known = {};
    fetch(list.dataset.commands).then((answer) => (answer.ok ? answer.json() : {})).then((names) => {
      known = names;
    }).catch(() => {});
    line.addEventListener("input", () => {
      const typed = line.value.toUpperCase();
      const found = Object.keys(known).filter((name) => name.startsWith(typed)).slice(0, 12);
      list.replaceChildren(...found.map((name) => new Option(known[name], name)));
      const words = typed.trim().split(/\s+/);
      const name = [words.slice(0, 2).join(" "), words[0]].find((each) => known[each] !== undefined);
      $("#syntax").textContent = name ? name + ": " + known[name] : "";
    });
    const before = all(".asked").map((each) => each.textContent.slice(2));
    let at = before.length;
    line.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
      if (line.value && at === before.length) return;
      at = Math.min(Math.max(at + (event.key === "ArrowUp" ? -1 : 1), 0), before.length);
      line.value = before[at] ?? "";
      event.preventDefault();
    });
    line.scrollIntoView({ block: "end" });
  }

  // -- theme and keys ---------------------------------------------------------------------------

  function switchTheme() {
    const root = document.documentElement;
    const isDark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    try { localStorage.setItem("holdfast-theme", root.dataset.theme); } catch { /* for this page */ }
  }
  $("#theme")?.addEventListener("click", switchTheme);

  const places = { o: "/", q: "/queues", b: "/builds", s: "/semaphores", r: "/replication", k: "/keys", c: "/console" };
  let afterG = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const key = event.key;
    if (afterG && places[key] && $('nav.side a[href="' + places[key] + '"]')) location.href = places[key];
    afterG = key === "g";
    if (key === "?") $("#help")?.showModal();
    if (key === "t") switchTheme();
    if (key === "/") {
      const search = $("[data-search]");
      if (search) { event.preventDefault(); search.focus(); search.select?.(); }
    }
  });
  const fold = () => $("details.menu")?.toggleAttribute("open", !phone.matches);
  phone.addEventListener("change", fold);
  fold();
})();
