"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const order = (a, b) => key(a).localeCompare(key(b), "en", { numeric: true });
      const number = (text) => (text === "" ? -Infinity : Number(text));
      const numeric = (a, b) => number(key(a)) - number(key(b)) || 0;
      const compare = head.dataset.sort === "number" ? numeric : order;
      body.append(...[...body.rows].sort((a, b) => (down ? compare(b, a) : compare(a, b))));
    });
  });
}
