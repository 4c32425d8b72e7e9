// Keys for reading; everything they do is also a link or a field on the page.
"use strict";
(() => {
  const rows = [...document.querySelectorAll("[data-row]")];
  let chosen = -1;
  const choose = (place) => {
    if (!rows.length) return;
    rows[chosen]?.classList.remove("chosen");
    chosen = Math.max(0, Math.min(rows.length - 1, place));
    rows[chosen].classList.add("chosen");
    rows[chosen].scrollIntoView({ block: "nearest" });
  };
  const follow = (key) => {
    const link = [...document.querySelectorAll("a[data-key]")].find((one) => one.dataset.key === key);
    if (link) link.click();
    return Boolean(link);
  };
  document.addEventListener("keydown", (event) => {
    const field = event.target.closest("input:not([type=radio]), select, textarea");
    if (event.key === "Escape" && field) return field.blur();
    if (field || event.ctrlKey || event.metaKey || event.altKey) return;
    const help = document.getElementById("help");
    if (event.key === "/") document.querySelector("[data-search]")?.focus();
    else if (event.key === "?") { help.open = !help.open; if (help.open) help.scrollIntoView(); }
    else if (event.key === "j" && rows.length) choose(chosen + 1);
    else if (event.key === "k" && rows.length) choose(chosen < 0 ? 0 : chosen - 1);
    else if (event.key === "Enter" && chosen >= 0 && event.target === document.body) rows[chosen].querySelector("a.open").click();
    else if (!/^[a-z]$/.test(event.key) || !follow(event.key)) return;
    event.preventDefault();
  });
})();
