// Renders a ViewSpec (GET /views/schema.json) into each element with data-view.
// All text becomes text nodes and only known parts are rendered: no view can bring markup or scripts.
"use strict";

const MAX_ROWS = 400;

function make(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function isSafe(href) {
  const { protocol } = new URL(href, location.href);
  return protocol === "https:" || protocol === "http:";
}

function renderCell(cell) {
  if (typeof cell === "string") return cell;
  if ("href" in cell && isSafe(cell.href)) {
    const link = make("a", "", cell.text);
    link.href = cell.href;
    link.rel = "noreferrer";
    return link;
  }
  return make("span", `state ${cell.tone ?? ""}`, cell.text);
}

function renderTable(head, rows, className = "") {
  if (!rows.length) return [make("p", "empty", "None.")];
  const titles = make("tr", "", ...head.map((text) => make("th", "", text)));
  const shown = rows.slice(0, MAX_ROWS);
  const table = make("table", className, make("thead", "", titles), make("tbody", "", ...shown));
  if (rows.length === shown.length) return [table];
  const more = `The first ${shown.length} of ${rows.length} rows; the JSON of this view has all.`;
  return [table, make("p", "notice", more)];
}

function renderRow(cells) {
  return make("tr", "", ...cells.map((cell) => make("td", "", renderCell(cell))));
}

function renderNode(node) {
  const causes = node.causes.flatMap((cause, index) => {
    const link = make("a", cause.tainted ? "tainted" : "", String(cause.number));
    link.href = `#event-${Number(cause.number)}`;
    return [index ? ", " : "", link, cause.tainted ? " (tainted)" : ""];
  });
  const row = make(
    "tr",
    node.tainted ? "tainted" : "",
    make("td", "", String(node.number)),
    make("td", "", node.text),
    make("td", "", ...causes),
    make("td", "", node.tainted ? make("span", "state bad", "tainted") : ""),
  );
  row.id = `event-${Number(node.number)}`;
  return row;
}

const PARTS = {
  paragraph: (part) => make("p", "", part.text),
  code: (part) => section(part.title, make("pre", "", part.text)),
  facts: (part) =>
    make(
      "dl",
      "facts",
      ...part.rows.map(([name, cell]) =>
        make("div", "", make("dt", "", name), make("dd", "", renderCell(cell))),
      ),
    ),
  table: (part) => section(part.title, ...renderTable(part.head, part.rows.map(renderRow))),
  graph: (part) =>
    section(
      part.title,
      ...renderTable(["#", "event", "caused by", "taint"], part.nodes.map(renderNode), "graph"),
    ),
};

function section(title, ...children) {
  return make("section", "", make("h2", "", title), ...children);
}

function renderPart(part) {
  const known = Object.hasOwn(PARTS, part.kind);
  return known ? PARTS[part.kind](part) : make("p", "notice", `unknown part: ${part.kind}`);
}

async function showView(place) {
  try {
    const answer = await fetch(place.dataset.view, { headers: { accept: "application/json" } });
    const view = await answer.json();
    if (!answer.ok) throw new Error(view.error);
    place.replaceChildren(...view.parts.map(renderPart));
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
  } catch (error) {
    place.replaceChildren(make("p", "why", `This view cannot be shown: ${error.message}`));
  }
}

for (const place of document.querySelectorAll("[data-view]")) showView(place);
