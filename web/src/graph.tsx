// The graph of a step: boxes by name scope, coloured by device; see scopes.ts and layout.ts for what is shown where.
//
// Preact draws the boxes and edges when the result or the expanded scopes change. Everything that changes more often
// (position, selection, what runs at the playhead) is set on the elements directly.
import { computed, effect, signal, untracked } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { deviceColor, deviceNames, expanded, plan, playing, result, resultOpened, selected, time } from "./state";
import type { NodeResult } from "./types";
import { Drawing } from "./boxes";
import { computeLayout, forgetPlaces, HEADER, type Layout, type Placed, segmentKey, walk } from "./layout";
import { Lights } from "./lights";
import { followPointers, View } from "./panzoom";
import { type Box, buildTree, isNameScope, sameNodes, scopesAround, type Tree, visibleBox } from "./scopes";
import { Search } from "./search";
import "./graph.css";

let fitNext = false; // the next drawing shows the whole graph

let kept: { graph: string; opened: number; nodes: NodeResult[]; tree: Tree } | null = null;

// A slider changes devices and times, seldom nodes: then the tree stays, and with it the position of every box.
const tree = computed<Tree | null>(() => {
  const nodes = result.value?.nodes;
  if (!nodes) return null;
  const story = resultOpened.peek();
  if (kept && kept.opened !== story) {
    // What was shown before must not decide where the boxes of a story are.
    forgetPlaces();
    fitNext = true;
    kept.opened = story;
  }
  if (kept && sameNodes(kept.nodes, nodes)) return kept.tree;
  const graph = JSON.stringify(plan.peek().graph);
  // Even a little more of the same network, such as another layer, gets a separate layout.
  if (graph !== kept?.graph) forgetPlaces();
  kept = { graph, opened: story, nodes, tree: buildTree(nodes) };
  return kept.tree;
});

const narrow = matchMedia("(max-width: 800px)");
const aspect = signal(narrow.matches ? 0.8 : 2);
narrow.addEventListener("change", () => (aspect.value = narrow.matches ? 0.8 : 2));

const tidied = signal(0); // how often all positions were computed again

const layout = computed<Layout | null>(() => {
  tidied.value;
  const t = tree.value,
    r = result.value;
  return t && r ? computeLayout(t, r.nodes, expanded.value, aspect.value) : null;
});

// What the next layout must keep in place or show.
let anchor: { key: string; x: number; y: number; focus: boolean } | null = null;
let goTo: string | null = null;

function toggle(b: Box, view: View, focus: boolean) {
  const p = layout.value?.placed.get(b);
  if (p) anchor = { key: b.key, x: view.x + (p.x + p.w / 2) * view.k, y: view.y + p.y * view.k, focus };
  const next = new Set(expanded.value);
  if (!next.delete(b.key)) next.add(b.key);
  expanded.value = next;
  if (isNameScope(b.key)) selected.value = b.key;
}

// Opens the scopes around a node, selects it and shows it.
export function showNode(name: string) {
  const b = tree.value?.byKey.get(name);
  if (!b) return;
  goTo = name;
  selected.value = name;
  // Always a new set, so that the layout effect runs even if everything is open already.
  expanded.value = new Set([...expanded.value, ...scopesAround(b)]);
}

function Legend() {
  const devices = deviceNames.value;
  const transfers = (result.value?.transfers.length ?? 0) > 0;
  return (
    <ul class="graph-legend" aria-label="Colours">
      {devices.slice(0, 8).map((d) => (
        <li key={d}>
          <i style={{ background: deviceColor(d) }} />
          {d}
        </li>
      ))}
      {devices.length > 8 && <li>and {devices.length - 8} more</li>}
      {transfers && (
        <li>
          <i class="graph-legend-transfer" />
          between devices
        </li>
      )}
    </ul>
  );
}

// The nearest box in the direction of an arrow key.
function neighbour(l: Layout, from: Placed, key: string): Placed | null {
  const cx = from.x + from.w / 2,
    cy = from.open ? from.y + HEADER / 2 : from.y + from.h / 2;
  let best: Placed | null = null,
    least = Infinity;
  for (const p of l.order) {
    if (p === from) continue;
    const dx = p.x + p.w / 2 - cx,
      dy = (p.open ? p.y + HEADER / 2 : p.y + p.h / 2) - cy;
    const [along, across] =
      key === "ArrowRight" ? [dx, dy] : key === "ArrowLeft" ? [-dx, dy] : key === "ArrowDown" ? [dy, dx] : [-dy, dx];
    if (along <= 1) continue;
    const cost = along + Math.abs(across) * 2.5;
    if (cost < least) {
      least = cost;
      best = p;
    }
  }
  return best;
}

// Shows the whole graph. Boxes that were put into gaps get better places.
function fitAll(l: Layout) {
  if (!forgetPlaces()) return view.fit(l);
  fitNext = true;
  tidied.value++;
}

const view = new View(); // outlives the component, so that changing tabs keeps the position
let drawn: Tree | null = null; // by the last drawing

// Whether fewer than half of the nodes were in the last drawing too. Then its position means nothing.
function isOtherGraph(t: Tree): boolean {
  const before = drawn;
  drawn = t;
  if (t === before) return false;
  const common = before ? t.ofNode.filter((b) => before.byKey.has(b.key)).length : 0;
  return common * 2 < Math.max(t.ofNode.length, before?.ofNode.length ?? 0);
}

export function GraphView() {
  const svg = useRef<SVGSVGElement>(null);
  const stage = useRef<SVGGElement>(null);
  const dotLayer = useRef<SVGGElement>(null);
  const lights = useRef<Lights | null>(null);
  const elements = useRef(new Map<string, SVGGElement>());
  const focusKey = useRef<string | null>(null);
  const moved = useRef(false);

  const light = () => {
    const l = layout.value,
      r = result.value;
    const t = time.value,
      live = playing.value || t > 0;
    if (l && r) lights.current?.show(t, live, l, r);
  };

  // Outlines the selected box, or the collapsed scope around it, and its edges.
  const mark = () => {
    const l = layout.value,
      t = tree.value,
      r = result.value,
      name = selected.value;
    if (!svg.current || !l || !t || !r) return;
    for (const e of svg.current.querySelectorAll(".graph-selected, .graph-around, .graph-hot"))
      e.classList.remove("graph-selected", "graph-around", "graph-hot");
    const box = name === null ? undefined : t.byKey.get(name);
    if (!box) return;
    const seen = visibleBox(box, expanded.value);
    elements.current.get(seen.key)?.classList.add(seen === box ? "graph-selected" : "graph-around");
    if (l.placed.get(seen)?.open) return;
    const hot = new Set<number>();
    const heat = (a: Box, b: Box) => {
      if (a !== b) walk(a, b, (_, from, to) => hot.add(segmentKey(from, to)));
    };
    r.nodes.forEach((n, i) => {
      for (const input of n.inputs ?? [])
        if (l.shown[i] === seen || l.shown[input] === seen) heat(l.shown[input], l.shown[i]);
    });
    for (const key of hot) svg.current.querySelector(`[data-edge="${key}"]`)?.classList.add("graph-hot");
  };

  const setFocusable = (key: string) => {
    const old = focusKey.current === null ? undefined : elements.current.get(focusKey.current);
    old?.setAttribute("tabindex", "-1");
    focusKey.current = key;
    elements.current.get(key)?.setAttribute("tabindex", "0");
  };

  const onDrawn = (l: Layout) => {
    const t = tree.value!;
    // The first drawing ends before the effects of this component run.
    if (view.svg !== svg.current) view.resized();
    view.svg = svg.current!;
    view.stage = stage.current!;
    lights.current ??= new Lights(svg.current!, dotLayer.current!);
    elements.current = new Map();
    for (const e of svg.current!.querySelectorAll<SVGGElement>(".graph-box")) elements.current.set(e.dataset.key!, e);
    lights.current.reset(l, result.value!, elements.current);
    const first =
      focusKey.current !== null && elements.current.has(focusKey.current) ? focusKey.current : l.order[0]?.box.key;
    if (first !== undefined) setFocusable(first);

    const kept = anchor;
    anchor = null;
    const target = goTo === null ? undefined : t.byKey.get(goTo);
    goTo = null;
    if (isOtherGraph(t)) {
      view.fit(l);
      // One box that contains all others says nothing.
      const [only] = t.root.children;
      if (t.root.children.length === 1 && only.kind === "scope" && !expanded.value.has(only.key)) {
        expanded.value = new Set([...expanded.value, only.key]);
      }
    } else if (target && l.placed.has(target)) {
      const p = l.placed.get(target)!;
      view.automatic = false;
      view.center(p.x, p.y, p.w, p.h, Math.max(0.8, Math.min(1.2, view.k)));
      setFocusable(target.key);
    } else if (kept) {
      const p = l.placed.get(t.byKey.get(kept.key)!);
      if (p) view.settle(kept, p, l);
      if (kept.focus) elements.current.get(kept.key)?.focus({ preventScroll: true });
    } else if (fitNext) view.fit(l);
    else view.keep(l);
    fitNext = false;
    mark();
    light();
  };

  useLayoutEffect(() => {
    const stop = followPointers(svg.current!, {
      moved,
      pan: (dx, dy) => view.pan(dx, dy),
      zoom: (factor, at) => view.zoom(factor, at.x, at.y),
      grab: (on) => svg.current?.classList.toggle("graph-grabbed", on),
    });
    const watch = new ResizeObserver(() => {
      view.resized();
      const l = untracked(() => layout.value);
      if (l && view.automatic) view.fit(l);
    });
    watch.observe(svg.current!);
    return () => {
      stop();
      watch.disconnect();
    };
  }, []);
  useEffect(() => {
    // Both run at once and again when their signals change; the layout is drawn by then.
    const stops = [
      effect(light),
      effect(() => {
        selected.value;
        untracked(mark);
      }),
    ];
    return () => stops.forEach((stop) => stop());
  }, []);

  const boxOf = (e: Event) => {
    const key = (e.target as Element).closest<SVGGElement>(".graph-box")?.dataset.key;
    return key === undefined ? null : (tree.value?.byKey.get(key) ?? null);
  };
  const activate = (b: Box, focus: boolean) => {
    setFocusable(b.key);
    if (b.kind === "node") selected.value = b.key;
    else toggle(b, view, focus);
  };
  const onClick = (e: MouseEvent) => {
    if (moved.current) return;
    const b = boxOf(e);
    if (b) activate(b, document.activeElement?.closest?.(".graph-box") !== null);
    else selected.value = null;
  };
  const onKey = (e: KeyboardEvent) => {
    const l = layout.value;
    if (!l || e.ctrlKey || e.metaKey || e.altKey) return;
    const b = boxOf(e);
    if (e.key === "+" || e.key === "=") view.zoom(1.25);
    else if (e.key === "-") view.zoom(0.8);
    else if (e.key === "0") fitAll(l);
    else if (e.key === "Escape") selected.value = null;
    else if (b && (e.key === "Enter" || e.key === " ")) activate(b, true);
    else if (b && e.key.startsWith("Arrow")) {
      const p = l.placed.get(b);
      const next = p && neighbour(l, p, e.key);
      if (next) {
        setFocusable(next.box.key);
        elements.current.get(next.box.key)?.focus({ preventScroll: true });
        view.reveal(next.open ? { ...next, h: HEADER } : next);
      }
    } else return;
    e.preventDefault();
    e.stopPropagation();
  };

  const r = result.value,
    t = tree.value,
    l = layout.value;
  const about = r
    ? `Graph of ${r.nodes.length} nodes. Arrow keys move between boxes, Enter opens a scope or selects a node.`
    : "Graph";
  return (
    <div class="graph" data-test="graph">
      <div class="graph-bar">
        <Search onPick={showNode} />
        <Legend />
        <div class="graph-tools" role="group" aria-label="Zoom of the graph">
          <button
            type="button"
            data-test="graph-zoom-in"
            aria-label="Zoom in"
            title="Zoom in (+)"
            onClick={() => view.zoom(1.3)}>
            +
          </button>
          <button
            type="button"
            data-test="graph-zoom-out"
            aria-label="Zoom out"
            title="Zoom out (-)"
            onClick={() => view.zoom(1 / 1.3)}>
            −
          </button>
          <button
            type="button"
            data-test="graph-fit"
            aria-label="Show the whole graph"
            title="Show the whole graph (0)"
            onClick={() => l && fitAll(l)}>
            Fit
          </button>
        </div>
      </div>
      <svg ref={svg} class="graph-svg" role="group" aria-label={about} onClick={onClick} onKeyDown={onKey}>
        <defs>
          {[["graph-arrow", 7], ["graph-arrow-transfer", 9], ["graph-arrow-hot", 9]].map(([id, size]) => (
            <marker
              key={id}
              id={String(id)}
              class={String(id)}
              viewBox="0 0 8 8"
              refX="7"
              refY="4"
              markerWidth={size}
              markerHeight={size}
              markerUnits="userSpaceOnUse"
              orient="auto">
              <path d="M0,0.5L8,4L0,7.5z" />
            </marker>
          ))}
        </defs>
        <g ref={stage}>
          {l && t && <Drawing l={l} t={t} onDrawn={onDrawn} />}
          <g ref={dotLayer} class="graph-dots" aria-hidden="true" />
        </g>
      </svg>
      {!r && <p class="graph-empty">The graph appears here.</p>}
    </div>
  );
}
