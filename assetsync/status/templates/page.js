"use strict";
(() => {
  const EVERY = 5000;
  const stale = document.getElementById("stale");
  let timer = 0;

  // Shown only where they work: without a script, or on plain http from afar, a command is copied by hand.
  const showButtons = () => {
    for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = !navigator.clipboard;
  };

  const parts = (page) => [...page.body.children, ...page.querySelectorAll("main > section")]
    .filter((part) => part.id && part.id !== "stale");

  // What a person is busy with is left alone until the next time.
  const isInUse = (part) => {
    const chosen = getSelection();
    return part.contains(document.activeElement) || (!chosen.isCollapsed && chosen.containsNode(part, true));
  };

  const openDetails = () => new Set([...document.querySelectorAll("details[open]")].map((one) => one.id));

  const takeOver = (page) => {
    const open = openDetails();
    const fresh = new Map(parts(page).map((part) => [part.id, part]));
    for (const one of page.querySelectorAll("details")) one.open = open.has(one.id);
    for (const part of parts(document)) {
      if (!fresh.has(part.id) && !isInUse(part)) part.remove();
    }
    let before = null;
    for (const [id, part] of fresh) {
      const shown = document.getElementById(id);
      if (!shown) {
        if (before) before.after(part); else document.querySelector("main").prepend(part);
      } else if (!isInUse(shown) && (shown.innerHTML !== part.innerHTML || shown.className !== part.className)) {
        shown.className = part.className;
        shown.replaceChildren(...part.childNodes);
      }
      const now = document.getElementById(id);
      if (now.parentElement === document.querySelector("main")) before = now;
    }
    if (document.title !== page.title) {
      document.title = page.title;
      document.querySelector("link[rel=icon]").href = "icon.svg?" + Date.now();
    }
    showButtons();
  };

  const refresh = async () => {
    timer = 0;
    try {
      const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(EVERY * 3) });
      if (!answer.ok && answer.status !== 404) throw new Error(answer.statusText);
      takeOver(new DOMParser().parseFromString(await answer.text(), "text/html"));
      stale.hidden = true;
    } catch {
      stale.hidden = false;
    }
    later(EVERY);
  };

  const later = (pause) => {
    if (!timer && !document.hidden) timer = setTimeout(refresh, pause);
  };

  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    timer = 0;
    later(0);
  });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.classList.add("done");
    } catch {
      button.classList.add("failed");
    }
    setTimeout(() => { button.classList.remove("done", "failed"); button.blur(); }, 1500);
  });

  showButtons();
  later(EVERY);
})();
