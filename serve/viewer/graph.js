// The picture of a memory: nodes and edges by weight, labels only where they overlap nothing.
/* global cytoscape */

import { plain } from "./dom.js";

const FONT = "system-ui, sans-serif";
const LABEL_PX = 12;
const RELATION_PX = 10;
const MAX_LABEL = 26;
const SETTLE_MS = 60;
const MANY = 150;
const HUB = 0.2;
const GOLDEN_ANGLE = Math.PI * (3 - Math.sqrt(5));

/** Draw into `place`; `on.node(id)`, `on.edge(id)` and `on.none()` tell what was chosen. */
export function drawGraph(place, { nodes, edges }, on) {
  const cy = cytoscape({
    container: place,
    elements: elements(nodes, edges),
    style: sheet(),
    layout: { name: "preset" },
    minZoom: 0.05,
    maxZoom: 4,
    boxSelectionEnabled: false,
    autoungrabify: false,
  });
  arrange(cy);
  let timer = 0;
  const settle = () => {
    clearTimeout(timer);
    timer = setTimeout(() => cy.destroyed() || placeLabels(cy), SETTLE_MS);
  };
  cy.on("zoom pan resize dragfree", settle);
  cy.on("tap", "node", (event) => on.node(event.target.id()));
  cy.on("tap", "edge", (event) => on.edge(event.target.id()));
  cy.on("tap", (event) => event.target === cy && on.none());
  cy.on("mouseover", "node, edge", () => place.classList.add("over"));
  cy.on("mouseout", "node, edge", () => place.classList.remove("over"));
  place.addEventListener("keydown", (event) => steer(cy, event));
  const scheme = window.matchMedia("(prefers-color-scheme: dark)");
  const restyle = () => {
    cy.style(sheet());
    placeLabels(cy);
  };
  scheme.addEventListener("change", restyle);
  placeLabels(cy);
  return {
    cy,
    fit: () => fit(cy),
    zoom: (factor) => zoom(cy, factor),
    choose: (id) => choose(cy, id),
    destroy: () => {
      clearTimeout(timer);
      scheme.removeEventListener("change", restyle);
      cy.destroy();
    },
  };
}

function elements(nodes, edges) {
  const heaviest = Math.max(...nodes.map((node) => node.weight), 1e-9);
  const strongest = Math.max(...edges.map((edge) => edge.weight), 1e-9);
  const many = edges.length > MANY;
  const spread = 40 * Math.sqrt(nodes.length);
  return [
    ...nodes.map((node, i) => ({
      group: "nodes",
      data: {
        id: node.id,
        weight: node.weight,
        text: shortened(node.name),
        hub: node.weight >= HUB * heaviest,
        rank: nodes.length - i,
        size: 12 + 34 * Math.sqrt(node.weight / heaviest),
      },
      // Heaviest in the middle of a spiral: the same picture for the same memory, every time.
      position: {
        x: spread * Math.sqrt(i / nodes.length) * Math.cos(i * GOLDEN_ANGLE),
        y: spread * Math.sqrt(i / nodes.length) * Math.sin(i * GOLDEN_ANGLE),
      },
    })),
    ...edges.map((edge) => ({
      group: "edges",
      classes: [edge.closed_by ? "closed" : "", many ? "fine" : ""].filter(Boolean).join(" "),
      data: {
        id: edge.id,
        source: edge.head,
        target: edge.tail,
        weight: edge.weight,
        text: shortened(plain(edge.relation)),
        width: (many ? 0.6 : 1) + (many ? 1.4 : 3.5) * Math.max(0, edge.weight / strongest),
      },
    })),
  ];
}

function shortened(text) {
  const letters = [...text];
  return letters.length > MAX_LABEL ? `${letters.slice(0, MAX_LABEL - 1).join("")}…` : text;
}

function arrange(cy) {
  const many = cy.edges().length > MANY;
  cy.layout({
    name: "cose",
    animate: false,
    randomize: false,
    fit: false,
    nodeRepulsion: () => (many ? 30000 : 14000),
    idealEdgeLength: () => (many ? 70 : 80),
    nodeOverlap: 12,
    gravity: many ? 1.2 : 0.6,
    numIter: many ? 350 : 800,
    componentSpacing: 60,
  }).run();
  fit(cy);
}

function fit(cy) {
  cy.resize();
  cy.fit(undefined, 48);
  if (cy.zoom() > 1.6) {
    cy.zoom(1.6);
    cy.center();
  }
}

function zoom(cy, factor) {
  cy.zoom({ level: cy.zoom() * factor, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });
}

function steer(cy, event) {
  const step = 60;
  const pans = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (pans[event.key]) cy.panBy({ x: pans[event.key][0], y: pans[event.key][1] });
  else if (event.key === "+" || event.key === "=") zoom(cy, 1.3);
  else if (event.key === "-") zoom(cy, 1 / 1.3);
  else if (event.key === "0") fit(cy);
  else return;
  event.preventDefault();
}

/** Light up one node or edge with what touches it; nothing for no id. */
function choose(cy, id) {
  cy.batch(() => {
    cy.elements().removeClass("chosen near dim");
    const chosen = id ? cy.getElementById(id) : cy.collection();
    if (chosen.empty()) return;
    const near = chosen.isNode() ? chosen.closedNeighborhood() : chosen.union(chosen.connectedNodes());
    cy.elements().not(near).addClass("dim");
    near.addClass("near");
    chosen.addClass("chosen");
  });
  placeLabels(cy);
}

/** Name the chosen, then the heaviest, below or above, where no label touches a label or a node. */
function placeLabels(cy) {
  const pen = document.createElement("canvas").getContext("2d");
  const zoomed = cy.zoom();
  const view = { x1: 0, y1: 0, x2: cy.width(), y2: cy.height() };
  const bodiesOf = (nodes) => nodes.map((node) => bodyOf(node, zoomed));
  const [hubs, others] = [bodiesOf(cy.nodes("[?hub]")), bodiesOf(cy.nodes("[!hub]"))];
  const labels = [];
  const clear = (box, boxes) => !boxes.some((other) => meets(box, other));
  const free = (box) => within(box, view) && clear(box, labels) && clear(box, hubs) && clear(box, others);
  // A hub stands in a crowd of its leaves: its name may cover them.
  const freeOfHub = (box) => within(box, view) && clear(box, labels) && clear(box, hubs);
  const ranked = (all) => all.not(".dim").sort((a, b) =>
    (b.hasClass("near") - a.hasClass("near")) || (b.data("weight") - a.data("weight")));
  cy.batch(() => {
    cy.elements().removeClass("named above");
    for (const node of ranked(cy.nodes())) {
      const { x, y } = node.renderedPosition();
      const away = (node.data("size") / 2) * zoomed + 4 + LABEL_PX / 2;
      const box = [away, -away]
        .map((shift) => boxOf(pen, node.data("text"), `600 ${LABEL_PX}px ${FONT}`, x, y + shift, LABEL_PX))
        .find(node.data("hub") ? freeOfHub : free);
      if (!box) continue;
      labels.push(box);
      const above = box.y1 < y;
      node.addClass(above ? "named above" : "named")
        .style({ "font-size": LABEL_PX / zoomed, "text-margin-y": (above ? -3 : 3) / zoomed });
    }
    for (const edge of ranked(cy.edges())) {
      if (edge.hasClass("fine") && !edge.hasClass("near")) continue;
      const { x, y } = edge.renderedMidpoint();
      const box = boxOf(pen, edge.data("text"), `${RELATION_PX}px ${FONT}`, x, y, RELATION_PX);
      if (!free(box)) continue;
      labels.push(box);
      edge.addClass("named").style("font-size", RELATION_PX / zoomed);
    }
  });
}

function bodyOf(node, zoomed) {
  const { x, y } = node.renderedPosition();
  const radius = (node.data("size") / 2) * zoomed;
  return { x1: x - radius, y1: y - radius, x2: x + radius, y2: y + radius };
}

function boxOf(pen, text, font, x, y, height) {
  pen.font = font;
  const half = pen.measureText(text).width / 2 + 2;
  return { x1: x - half, y1: y - height / 2 - 2, x2: x + half, y2: y + height / 2 + 2 };
}

function within(box, view) {
  return box.x1 >= view.x1 && box.x2 <= view.x2 && box.y1 >= view.y1 && box.y2 <= view.y2;
}

function meets(a, b) {
  return a.x1 < b.x2 && b.x1 < a.x2 && a.y1 < b.y2 && b.y1 < a.y2;
}

/** Colours come from the style sheet, so that dark and light are said once. */
function sheet() {
  const read = getComputedStyle(document.documentElement);
  const colour = (name) => read.getPropertyValue(`--${name}`).trim();
  return [
    { selector: "node", style: {
      "z-index": "data(rank)", width: "data(size)", height: "data(size)", "background-color": colour("node"),
      "border-width": 1, "border-color": colour("panel"), "font-family": FONT, "font-weight": 600,
      color: colour("ink"), "text-valign": "bottom", "text-halign": "center",
      "text-outline-color": colour("panel"), "text-outline-width": 2, "text-events": "no",
    } },
    { selector: "edge", style: {
      width: "data(width)", "line-color": colour("edge"), "curve-style": "bezier",
      "target-arrow-shape": "triangle", "target-arrow-color": colour("edge"), "arrow-scale": 0.8,
      "font-family": FONT, color: colour("muted"),
      "text-background-color": colour("panel"), "text-background-opacity": 0.9, "text-events": "no",
    } },
    { selector: "edge.fine", style: { "curve-style": "straight", opacity: 0.55, "arrow-scale": 0.6 } },
    { selector: "node.above", style: { "text-valign": "top" } },
    { selector: ".named", style: { label: "data(text)" } },
    { selector: "edge.closed", style: { "line-style": "dashed", opacity: 0.6 } },
    { selector: ".dim", style: { opacity: 0.18 } },
    { selector: "edge.near", style: { opacity: 1, "line-color": colour("accent"), "target-arrow-color": colour("accent") } },
    { selector: "node.chosen", style: { "background-color": colour("accent") } },
    { selector: "edge.chosen", style: { color: colour("ink") } },
  ];
}
