// What paper has no use for: the theme, sorting, filtering, copying, and definitions in place.
(() => {
  "use strict";
  const root = document.documentElement;
  const make = (tag, attributes = {}, text = "") => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text) node.textContent = text;
    return node;
  };

  // Light, dark, or as the system has it.
  const THEMES = ["system", "light", "dark"];
  const theme = make("button", { type: "button", class: "tool" });
  const show = (name) => {
    if (name === "system") delete root.dataset.theme;
    else root.dataset.theme = name;
    theme.textContent = `Theme: ${name}`;
  };
  theme.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(root.dataset.theme || "system") + 1) % THEMES.length];
    show(next);
    try { localStorage.setItem("entresol-theme", next); } catch { /* For this page only, then. */ }
  });
  show(root.dataset.theme || "system");
  document.querySelector("header .bar").append(theme);

  // Definitions: one box, for whatever is pointed at or focused.
  const tip = make("div", { id: "tip", role: "tooltip", hidden: "" });
  document.body.append(tip);
  let owner = null;
  let timer = 0;
  const place = (node) => {
    const box = node.getBoundingClientRect();
    const width = Math.min(340, root.clientWidth - 16);
    tip.style.width = "max-content";
    tip.style.maxWidth = `${width}px`;
    const size = tip.getBoundingClientRect();
    const left = Math.max(8, Math.min(box.left, root.clientWidth - size.width - 8));
    const below = box.bottom + 8 + size.height < root.clientHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${below ? box.bottom + 6 : Math.max(8, box.top - size.height - 6)}px`;
  };
  const open = (node, name, text) => {
    clearTimeout(timer);
    if (owner) owner.removeAttribute("aria-describedby");
    owner = node;
    tip.replaceChildren(make("strong", {}, name), make("span", {}, text));
    tip.hidden = false;
    node.setAttribute("aria-describedby", "tip");
    place(node);
  };
  const close = () => {
    clearTimeout(timer);
    if (owner) owner.removeAttribute("aria-describedby");
    owner = null;
    tip.hidden = true;
  };
  const later = (action, delay) => { clearTimeout(timer); timer = setTimeout(action, delay); };
  for (const term of document.querySelectorAll(".term")) {
    term.dataset.definition = term.title;
    term.removeAttribute("title");
  }
  const defined = (target) => {
    if (!(target instanceof Element)) return null;
    const term = target.closest(".term");
    if (term) return [term, term];
    const cell = target.closest("td");
    const table = cell && cell.closest("table");
    const own = table && table.tHead && table.tHead.rows[0].cells[cell.cellIndex];
    const head = own && own.querySelector(".term");
    return head ? [cell, head] : null;
  };
  const name = (term) => term.dataset.name || term.textContent;
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    if (tip.contains(event.target)) { clearTimeout(timer); return; }
    const found = defined(event.target);
    if (!found) { if (owner && owner !== document.activeElement) later(close, 200); return; }
    if (found[0] === owner) { clearTimeout(timer); return; }
    // Over a number the definition waits until the pointer rests.
    const [node, term] = found;
    later(() => open(node, name(term), term.dataset.definition), node === term ? 120 : 650);
  });
  document.addEventListener("focusin", (event) => {
    const term = event.target instanceof Element && event.target.closest(".term");
    if (term) open(term, name(term), term.dataset.definition);
    else close();
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
  document.addEventListener("scroll", () => { if (owner) close(); }, { passive: true, capture: true });

  // Tables: a button in each head sorts up, down, and back to the order of the study.
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  const key = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    const text = cell.textContent.trim();
    return text === "" || text === "–" ? null : text;
  };
  const order = (a, b) => {
    if (a === null || b === null) return 0;
    if (typeof a === "number" && typeof b === "number") return a - b;
    return compare(String(a), String(b));
  };
  const sort = (table, column, direction) => {
    const body = table.tBodies[0];
    table.original ||= [...body.rows];
    let rows = [...table.original];
    if (direction !== "none") {
      const sign = direction === "ascending" ? 1 : -1;
      const keyed = rows.map((row) => [key(row, column), row]);
      // What has no value stays at the end, either way.
      keyed.sort(([a], [b]) => (a === null) - (b === null) || sign * order(a, b));
      rows = keyed.map(([, row]) => row);
    }
    body.append(...rows);
    for (const [index, head] of [...table.tHead.rows[0].cells].entries()) {
      if (index === column) head.setAttribute("aria-sort", direction);
      else head.removeAttribute("aria-sort");
    }
  };
  const heads = [];
  for (const table of document.querySelectorAll("table")) {
    if (table.tBodies[0].rows.length < 3) continue;
    for (const [column, head] of [...table.tHead.rows[0].cells].entries()) {
      const term = head.querySelector(".term");
      const label = head.textContent;
      const button = make("button", { type: "button", class: term ? "sort term" : "sort" }, label);
      if (term) button.dataset.definition = term.dataset.definition;
      button.dataset.name = label;
      button.append(make("span", { class: "arrow", "aria-hidden": "true" }));
      button.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        sort(table, column, now === "ascending" ? "descending" : now === "descending" ? "none" : "ascending");
      });
      head.replaceChildren(button);
      heads.push([head, button, label]);
    }
  }

  // Long tables: only the rows that hold a word.
  for (const table of document.querySelectorAll("table")) {
    const rows = [...table.tBodies[0].rows];
    if (rows.length < 20) continue;
    const box = make("p", { class: "filter" });
    const input = make("input", { type: "search", placeholder: "such as skybyte 8MiB" });
    const label = make("label", {}, "Rows with ");
    const count = make("span", { role: "status" });
    label.append(input);
    box.append(label, count);
    table.parentElement.before(box);
    const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const [row, text] of texts) {
        row.hidden = !words.every((word) => text.includes(word));
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = words.length ? `${shown} of ${rows.length}` : "";
    });
  }

  // Text to take along.
  for (const block of document.querySelectorAll(".copyable")) {
    const button = make("button", { type: "button", class: "tool" }, "Copy");
    button.setAttribute("aria-label", `Copy: ${block.dataset.label}`);
    const text = block.querySelector("pre").textContent;
    button.addEventListener("click", async () => {
      let done = true;
      try { await navigator.clipboard.writeText(text); } catch {
        const area = make("textarea");
        area.value = text;
        document.body.append(area);
        area.select();
        done = document.execCommand("copy");
        area.remove();
      }
      button.textContent = done ? "Copied" : "Not copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1600);
    });
    block.append(button);
  }

  // A block that has nothing to scroll is no stop for the keyboard.
  const stops = () => {
    for (const block of document.querySelectorAll(".scroll, pre")) {
      if (block.scrollWidth > block.clientWidth + 1) block.tabIndex = 0;
      else block.removeAttribute("tabindex");
    }
  };
  stops();
  addEventListener("resize", stops);

  // The link of the part that is being read; paper shows everything.
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      const link = links.get(entry.target.id);
      link?.setAttribute("aria-current", "true");
      link?.parentElement.scrollTo({ left: link.offsetLeft - 60 });
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  for (const part of document.querySelectorAll("section[id]")) seen.observe(part);
  for (const fold of document.querySelectorAll("details")) fold.addEventListener("toggle", stops);
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const fold of folded) fold.open = true;
    // A browser does not repeat the head of a table on the next sheet if it holds buttons.
    for (const [head, , label] of heads) head.textContent = label;
  });
  addEventListener("afterprint", () => {
    for (const fold of folded) fold.open = false;
    for (const [head, button] of heads) head.replaceChildren(button);
  });
})();
