// Places the visible boxes and routes the edges between them. Each expanded scope is laid out by itself, inner scopes
// first, and is then one box in its parent: so a click changes only the scopes around it, and the layout of all others
// comes from a cache.
//
// Where nodes run and when has no influence. But a slider may also change which nodes there are, because equal
// constants are merged only on one device. Then the boxes that stay keep their places; see adapt.
import dagre from "@dagrejs/dagre";
import type { NodeResult } from "./types";
import { type Box, type Tree, opName, shorten } from "./scopes";

export interface Placed {
  box: Box;
  x: number; // of the left upper corner
  y: number;
  w: number;
  h: number;
  open: boolean; // an expanded scope
  label: string;
  below: string; // small text: the op, or the number of nodes
}

export interface Point {
  x: number;
  y: number;
}

// All tensors between two boxes of one scope. An edge that leaves an expanded scope consists of several segments: from
// the box to the lower border of its scope, and so on outwards, then from box to box, then inwards.
export interface Segment {
  key: number;
  scope: Box;
  from: Box; // the scope itself: from its upper border
  to: Box; // the scope itself: to its lower border
  count: number;
  transfers: number; // how many of them go to another device
  points: Point[];
  faint: boolean; // one of too many edges to route
}

export interface Layout {
  placed: Map<Box, Placed>;
  order: Placed[]; // outer boxes first
  segments: Map<number, Segment>;
  shown: Box[]; // by number of the node: the visible box it is in
  width: number;
  height: number;
}

export const HEADER = 22; // height of the header of an expanded scope
const PAD = 12; // between its border and its boxes
const GAP = 14; // between boxes of a rank
const RANK = 22; // between ranks
const COLUMN = 44; // between columns

// Dagre's time grows with the edges times their length. Beyond this, only the edges that shape a level are routed.
const ROUTED = 130;

let context: CanvasRenderingContext2D | null | undefined;
const widths = new Map<string, number>();

function textWidth(text: string, font: string): number {
  const key = font + text;
  let w = widths.get(key);
  if (w === undefined) {
    context ??= document.createElement("canvas").getContext("2d");
    if (context) context.font = font;
    w = context?.measureText(text).width ?? text.length * 7;
    widths.set(key, w);
  }
  return w;
}

const FONT = "system-ui, sans-serif";

// The name in a box: what people call it, without the scopes that are drawn around it.
function nameIn(b: Box, n: NodeResult): string {
  if (n.label === undefined) return b.label;
  let scope = b.parent!;
  while (scope.kind !== "scope") scope = scope.parent!;
  return n.label.startsWith(scope.key) ? n.label.slice(scope.key.length) : n.label.slice(n.label.lastIndexOf("/") + 1);
}

function sizeOf(b: Box, nodes: NodeResult[]): Placed {
  if (b.kind === "node") {
    const op = nodes[b.node].op;
    const label = shorten(nameIn(b, nodes[b.node]), 24);
    // "Conv2D_1 (Conv2D)" says nothing twice.
    const below = b.label.replace(/_\d+$/, "") === op ? "" : shorten(opName(op), 28);
    const wide = Math.max(textWidth(label, `12px ${FONT}`), textWidth(below, `10px ${FONT}`));
    return { box: b, x: 0, y: 0, w: Math.max(64, Math.ceil(wide) + 18), h: below ? 34 : 24, open: false, label, below };
  }
  const label = b.kind === "series" ? `${shorten(b.label, 22)} × ${b.count}` : shorten(b.label, 30);
  // All members of a series have the same op.
  let op: string | null = null;
  for (let c = b; b.kind === "series" && op === null; c = c.children[0]) if (c.node >= 0) op = nodes[c.node].op;
  const below =
    op !== null && op !== b.label
      ? shorten(opName(op), 28)
      : b.kind === "series"
        ? ""
        : `${b.count} ${b.count === 1 ? "node" : "nodes"}`;
  const wide = Math.max(textWidth(label, `600 12px ${FONT}`), textWidth(below, `10px ${FONT}`));
  return { box: b, x: 0, y: 0, w: Math.max(84, Math.ceil(wide) + 26), h: below ? 42 : 32, open: false, label, below };
}

// The path of one tensor through the visible boxes, as (from, to) pairs of neighbours; see Segment.
export function walk(a: Box, b: Box, visit: (scope: Box, from: Box, to: Box) => void): void {
  const down: [Box, Box][] = [];
  while (a.parent !== b.parent) {
    if (a.depth >= b.depth) {
      visit(a.parent!, a, a.parent!);
      a = a.parent!;
    } else {
      down.push([b.parent!, b]);
      b = b.parent!;
    }
  }
  visit(a.parent!, a, b);
  for (let i = down.length - 1; i >= 0; i--) visit(down[i][0], down[i][0], down[i][1]);
}

export function segmentKey(from: Box, to: Box): number {
  return from.id * 2 ** 26 + to.id;
}

interface Inner {
  w: number;
  h: number;
  at: Point[]; // of the children, in their order
  points: (Point[] | null)[]; // of the segments between children, in their order
}

// By everything that the layout of a scope depends on. Sliders that move back find the earlier layout here.
const cache = new Map<string, Inner>();
const MOST_CACHED = 300;

interface Slot extends Point {
  w: number;
  h: number;
}

// Where the boxes of a scope were when it was last drawn, also those that have disappeared since.
interface Memory {
  w: number;
  h: number;
  aspect: number;
  slots: Map<string, Slot>;
  routes: Map<number, Point[]>; // by key of the segment
}

const memories = new Map<string, Memory>(); // by key of the scope
let adapted = false; // since the last call of forgetPlaces

// Makes the next layout compute all positions again: for another graph, or to tidy up. Returns whether that changes any.
export function forgetPlaces(): boolean {
  const changes = adapted;
  adapted = false;
  memories.clear();
  return changes;
}

const NEAR = 10; // so many pixels more or less than its place has, a box may be wide: labels contain numbers

// Keeps the places of boxes that were there before, and puts new ones near their neighbours. Returns null if too much
// is different: then a new layout is better.
function adapt(m: Memory, parts: Placed[], edges: Segment[], aspect: number): Inner | null {
  if (m.aspect !== aspect) return null;
  const at = new Map<Box, Slot>();
  const fresh: Placed[] = [];
  const overlaps = (x: number, y: number, p: Placed) => {
    for (const q of at.values())
      if (x < q.x + q.w + GAP / 2 && q.x < x + p.w + GAP / 2 && y < q.y + q.h + GAP / 2 && q.y < y + p.h + GAP / 2)
        return true;
    return false;
  };
  const known: [Placed, Slot][] = [];
  for (const p of parts) {
    const slot = m.slots.get(p.box.key);
    if (!slot) fresh.push(p);
    else if (Math.abs(slot.w - p.w) > NEAR || Math.abs(slot.h - p.h) > NEAR) return null;
    else known.push([p, slot]);
  }
  if (fresh.length * 4 > parts.length || known.length * 2 < m.slots.size) return null;
  for (const [p, slot] of known) {
    const x = slot.x + (slot.w - p.w) / 2;
    // Another box may have been put there while this one was gone.
    if (overlaps(x, slot.y, p)) fresh.push(p);
    else at.set(p.box, { x, y: slot.y, w: p.w, h: p.h });
  }
  let { w, h } = m;
  for (const p of fresh) {
    // A producer such as a constant belongs above the box that uses it.
    const e = edges.find((s) => s.from === p.box && at.has(s.to)) ?? edges.find((s) => s.to === p.box && at.has(s.from));
    const near = e && at.get(e.from === p.box ? e.to : e.from);
    const wish = near
      ? { x: near.x + (near.w - p.w) / 2, y: e.from === p.box ? near.y - RANK - p.h : near.y + near.h + RANK }
      : { x: 0, y: h };
    let best: Point = { x: 0, y: h + RANK },
      least = Infinity;
    const rows = new Set([wish.y, ...(near ? [near.y + (near.h - p.h) / 2] : [])]);
    for (let y = 0; y + p.h <= h; y += 12) rows.add(y);
    for (const y of rows) {
      if (y < 0 || y + p.h > h) continue;
      for (let x = wish.x % 8; x + p.w <= w; x += 8) {
        const cost = Math.abs(x - wish.x) + 1.5 * Math.abs(y - wish.y);
        if (x >= 0 && cost < least && !overlaps(x, y, p)) {
          least = cost;
          best = { x, y };
        }
      }
    }
    at.set(p.box, { ...best, w: p.w, h: p.h });
    w = Math.max(w, best.x + p.w);
    h = Math.max(h, best.y + p.h);
  }
  const moved = new Set(fresh.map((p) => p.box));
  const points = edges.map((e) => {
    const route = moved.has(e.from) || moved.has(e.to) ? undefined : m.routes.get(e.key);
    if (route || edges.length > ROUTED) return route ?? null;
    const a = at.get(e.from)!,
      b = at.get(e.to)!;
    return curve({ x: a.x + a.w / 2, y: a.y + a.h }, { x: b.x + b.w / 2, y: b.y });
  });
  if (fresh.length > 0) adapted = true;
  const inner = { w, h, at: parts.map((p) => at.get(p.box)!), points };
  remember(m, inner, parts, edges);
  return inner;
}

function remember(m: Memory, inner: Inner, parts: Placed[], edges: Segment[]) {
  m.w = inner.w;
  m.h = inner.h;
  parts.forEach((p, i) => m.slots.set(p.box.key, { ...inner.at[i], w: p.w, h: p.h }));
  edges.forEach((e, i) => {
    const route = inner.points[i];
    if (route) m.routes.set(e.key, route);
  });
}

// Puts boxes without neighbours in their scope into rows of about the given width.
function placeRows(parts: Placed[], at: Map<Box, Point>, top: number, width: number): { w: number; h: number } {
  let x = 0,
    y = top,
    rowHeight = 0,
    w = 0;
  for (const p of parts) {
    if (x > 0 && x + p.w > width) {
      x = 0;
      y += rowHeight + GAP;
      rowHeight = 0;
    }
    at.set(p.box, { x, y });
    x += p.w + GAP;
    w = Math.max(w, x - GAP);
    rowHeight = Math.max(rowHeight, p.h);
  }
  return { w, h: y + rowHeight };
}

// Chooses the edges that dagre routes: all, or for each box only those to its nearest neighbours.
function chooseRouted(edges: Segment[]): Set<Segment> {
  if (edges.length <= ROUTED) return new Set(edges);
  const span = (e: Segment) => Math.abs(e.to.first - e.from.first);
  const near = [...edges].sort((a, b) => span(a) - span(b) || b.count - a.count);
  const routed = new Set<Segment>();
  const hasOut = new Set<Box>(),
    hasIn = new Set<Box>();
  for (const e of near) {
    if (hasOut.has(e.from) && hasIn.has(e.to)) continue;
    hasOut.add(e.from);
    hasIn.add(e.to);
    routed.add(e);
  }
  return routed;
}

interface Drawing {
  w: number;
  h: number;
  at: Map<Box, Point>;
  points: Map<Segment, Point[]>;
}

// A path with right angles, as points of a smooth path with round corners.
function roundCorners(corners: Point[]): Point[] {
  const out = [corners[0]];
  for (let i = 1; i + 1 < corners.length; i++) {
    const p = corners[i];
    for (const q of [corners[i - 1], p, corners[i + 1]]) {
      const far = Math.hypot(q.x - p.x, q.y - p.y);
      const share = far > 0 ? Math.min(0.5, 9 / far) : 0;
      out.push({ x: p.x + (q.x - p.x) * share, y: p.y + (q.y - p.y) * share });
    }
  }
  out.push(corners[corners.length - 1]);
  return out;
}

// Cuts a drawing at the borders of ranks into so many columns side by side. Edges between columns run through the space
// between ranks and between columns, so that they do not pass behind boxes.
function cutIntoColumns(parts: Placed[], whole: Drawing, columns: number): Drawing {
  const ranks = new Map<number, { top: number; bottom: number; parts: Placed[] }>();
  for (const p of parts) {
    const { y } = whole.at.get(p.box)!;
    const middle = Math.round(y + p.h / 2);
    const r = ranks.get(middle);
    if (r) {
      r.top = Math.min(r.top, y);
      r.bottom = Math.max(r.bottom, y + p.h);
      r.parts.push(p);
    } else ranks.set(middle, { top: y, bottom: y + p.h, parts: [p] });
  }
  const columnOf = new Map<Box, number>();
  const rankOf = new Map<Box, { top: number; bottom: number }>();
  const tops: number[] = [],
    bottoms: number[] = [];
  for (const [, r] of [...ranks].sort((a, b) => a[0] - b[0])) {
    const c = tops.length - 1;
    // A rank belongs to the column in which its middle would be.
    if (c < 0 || (tops.length < columns && (r.top + r.bottom) / 2 > (whole.h / columns) * (c + 1))) {
      tops.push(r.top);
      bottoms.push(r.bottom);
    } else bottoms[c] = r.bottom;
    for (const p of r.parts) {
      columnOf.set(p.box, tops.length - 1);
      rankOf.set(p.box, r);
    }
  }

  // What is in each column, with the edges that stay inside, decides how wide it is.
  const lefts = tops.map(() => Infinity),
    rights = tops.map(() => 0);
  const include = (c: number, x0: number, x1: number) => {
    lefts[c] = Math.min(lefts[c], x0);
    rights[c] = Math.max(rights[c], x1);
  };
  for (const p of parts) include(columnOf.get(p.box)!, whole.at.get(p.box)!.x, whole.at.get(p.box)!.x + p.w);
  for (const [e, list] of whole.points) {
    const c = columnOf.get(e.from)!;
    if (c === columnOf.get(e.to)) for (const q of list) include(c, q.x, q.x);
  }
  const starts: number[] = [];
  let x = 0;
  for (let c = 0; c < tops.length; c++) {
    starts.push(x);
    x += rights[c] - lefts[c] + COLUMN;
  }

  const sizes = new Map(parts.map((p) => [p.box, p]));
  const move = (q: Point, c: number): Point => ({ x: q.x - lefts[c] + starts[c], y: q.y - tops[c] });
  const at = new Map<Box, Point>();
  for (const [b, q] of whole.at) at.set(b, move(q, columnOf.get(b)!));
  const points = new Map<Segment, Point[]>();
  for (const [e, list] of whole.points) {
    const c = columnOf.get(e.from)!,
      d = columnOf.get(e.to)!;
    if (c === d) {
      points.set(
        e,
        list.map((q) => move(q, c)),
      );
      continue;
    }
    const a = at.get(e.from)!,
      b = at.get(e.to)!,
      from = sizes.get(e.from)!,
      to = sizes.get(e.to)!;
    // Lanes differ a little from edge to edge, so that they can be told apart.
    const lane = (e.key % 7) - 3;
    const after = (column: number) => starts[column] + rights[column] - lefts[column] + COLUMN / 2 + lane * 4;
    const leave = c < d ? after(c) : after(c - 1),
      enter = c < d ? after(d - 1) : after(d);
    const below = rankOf.get(e.from)!.bottom - tops[c] + RANK / 2 + lane;
    const above = rankOf.get(e.to)!.top - tops[d] - RANK / 2 + lane;
    const start = { x: a.x + from.w / 2, y: a.y + from.h },
      end = { x: b.x + to.w / 2, y: b.y };
    const over = -RANK / 2 + lane; // above all columns
    points.set(
      e,
      roundCorners([
        start,
        { x: start.x, y: below },
        { x: leave, y: below },
        ...(leave === enter
          ? []
          : [
              { x: leave, y: over },
              { x: enter, y: over },
            ]),
        { x: enter, y: above },
        { x: end.x, y: above },
        end,
      ]),
    );
  }
  return { w: x - COLUMN, h: Math.max(...tops.map((t, c) => bottoms[c] - t)), at, points };
}

// Deep networks are long, thin chains. In a wide panel they can be read much better in columns.
function foldColumns(parts: Placed[], whole: Drawing, aspect: number): Drawing {
  const scale = (d: Drawing) => Math.min(aspect / d.w, 1 / d.h);
  let best = whole;
  for (let columns = 2; columns <= Math.min(12, parts.length / 3); columns++) {
    const next = cutIntoColumns(parts, whole, columns);
    // Each column makes edges longer, so it must make the boxes clearly larger.
    if (scale(next) > scale(best) * 1.15) best = next;
    else if (scale(next) < scale(best)) break;
  }
  return best;
}

// Lays out the boxes of one scope. Segments to the border of the scope do not take part: they would only push the
// boxes apart, and they are drawn faintly.
function layoutScope(parts: Placed[], edges: Segment[], aspect: number): Inner {
  const linked = new Set<Box>();
  for (const e of edges) linked.add(e.from).add(e.to);
  const routed = chooseRouted(edges);
  let w = 0,
    h = 0;
  let at = new Map<Box, Point>();
  let points = new Map<Segment, Point[]>();
  if (linked.size > 0) {
    const g = new dagre.graphlib.Graph();
    g.setGraph({
      rankdir: "TB",
      nodesep: GAP,
      ranksep: RANK,
      edgesep: 8,
      ranker: parts.length > 40 ? "tight-tree" : "network-simplex",
    });
    g.setDefaultEdgeLabel(() => ({}));
    for (const p of parts) if (linked.has(p.box)) g.setNode(String(p.box.id), { width: p.w, height: p.h });
    for (const e of routed)
      g.setEdge(String(e.from.id), String(e.to.id), { weight: Math.min(8, 1 + Math.log2(e.count)) });
    dagre.layout(g);
    for (const p of parts) {
      if (!linked.has(p.box)) continue;
      const n = g.node(String(p.box.id));
      at.set(p.box, { x: n.x - p.w / 2, y: n.y - p.h / 2 });
    }
    for (const e of routed) points.set(e, g.edge(String(e.from.id), String(e.to.id)).points);
    const whole = { w: g.graph().width ?? 0, h: g.graph().height ?? 0, at, points };
    ({ w, h, at, points } = foldColumns(
      parts.filter((p) => linked.has(p.box)),
      whole,
      aspect,
    ));
  }
  const single = parts.filter((p) => !linked.has(p.box));
  if (single.length > 0) {
    const area = single.reduce((sum, p) => sum + (p.w + GAP) * (p.h + GAP), 0);
    const rows = placeRows(single, at, h > 0 ? h + RANK : 0, Math.max(w, Math.sqrt(area * aspect)));
    w = Math.max(w, rows.w);
    h = rows.h;
  }
  return { w, h, at: parts.map((p) => at.get(p.box)!), points: edges.map((e) => points.get(e) ?? null) };
}

// A curve from (a.x, a.y) down to (b.x, b.y), or up if b is above.
function curve(a: Point, b: Point): Point[] {
  const middle = (a.y + b.y) / 2;
  return [a, { x: a.x, y: middle }, { x: b.x, y: middle }, b];
}

// Computes the layout of all visible boxes. The tree belongs to the nodes; aspect is the wanted width over height.
export function computeLayout(tree: Tree, nodes: NodeResult[], expanded: ReadonlySet<string>, aspect: number): Layout {
  const { root } = tree;
  const shown: Box[] = new Array(nodes.length);
  const mark = (b: Box, seen: Box | null) => {
    if (b.node >= 0) shown[b.node] = seen ?? b;
    const inside = seen ?? (b === root || b.node >= 0 || expanded.has(b.key) ? null : b);
    for (const c of b.children) mark(c, inside);
  };
  mark(root, null);

  const segments = new Map<number, Segment>();
  const ofScope = new Map<Box, Segment[]>();
  nodes.forEach((n, i) => {
    for (const input of n.inputs ?? []) {
      const a = shown[input],
        b = shown[i];
      if (a === undefined || a === b) continue;
      const transfer = nodes[input].device === n.device ? 0 : 1;
      walk(a, b, (scope, from, to) => {
        const key = segmentKey(from, to);
        let s = segments.get(key);
        if (!s) {
          s = { key, scope, from, to, count: 0, transfers: 0, points: [], faint: false };
          segments.set(key, s);
          if (from !== scope && to !== scope) {
            const list = ofScope.get(scope);
            if (list) list.push(s);
            else ofScope.set(scope, [s]);
          }
        }
        s.count++;
        s.transfers += transfer;
      });
    }
  });

  // Inner scopes first: the size of an expanded scope follows from its contents.
  const inners = new Map<Box, { inner: Inner; parts: Placed[] }>();
  const measure = (b: Box): Placed => {
    const p = sizeOf(b, nodes);
    if (b !== root && (b.node >= 0 || !expanded.has(b.key))) return p;
    const parts = b.children.map(measure);
    const edges = ofScope.get(b) ?? [];
    const memory = memories.get(b.key);
    let inner = memory ? adapt(memory, parts, edges, aspect) : null;
    if (!inner) {
      const signature =
        `${aspect}|` +
        parts.map((q) => `${q.box.key}:${q.w}:${q.h}`).join() +
        "|" +
        edges.map((e) => `${e.from.key}>${e.to.key}`).join();
      inner = cache.get(signature) ?? layoutScope(parts, edges, aspect);
      if (cache.size >= MOST_CACHED) cache.clear();
      cache.set(signature, inner);
      const m: Memory = { w: 0, h: 0, aspect, slots: new Map(), routes: new Map() };
      remember(m, inner, parts, edges);
      memories.set(b.key, m);
    }
    inners.set(b, { inner, parts });
    const header = textWidth(p.label, `600 12px ${FONT}`) + 60;
    return { ...p, open: true, w: Math.max(inner.w + 2 * PAD, header), h: inner.h + 2 * PAD + HEADER };
  };
  const whole = measure(root);

  // Then positions, outer boxes first.
  const placed = new Map<Box, Placed>();
  const order: Placed[] = [];
  const place = (b: Box, x: number, y: number) => {
    const { inner, parts } = inners.get(b)!;
    parts.forEach((p, i) => {
      p.x = x + inner.at[i].x;
      p.y = y + inner.at[i].y;
      placed.set(p.box, p);
      order.push(p);
      if (p.open) place(p.box, p.x + (p.w - inners.get(p.box)!.inner.w) / 2, p.y + HEADER + PAD);
    });
    (ofScope.get(b) ?? []).forEach((s, i) => {
      const route = inner.points[i];
      s.points = route ? route.map((q) => ({ x: q.x + x, y: q.y + y })) : [];
    });
  };
  place(root, 0, 0);

  const top = (p: Placed): Point => ({ x: p.x + p.w / 2, y: p.y });
  const bottom = (p: Placed): Point => ({ x: p.x + p.w / 2, y: p.y + p.h });
  for (const s of segments.values()) {
    const from = placed.get(s.from)!,
      to = placed.get(s.to)!;
    if (s.from === s.scope) s.points = curve({ ...top(from), y: from.y + HEADER }, top(to));
    else if (s.to === s.scope) s.points = curve(bottom(from), bottom(to));
    else if (s.points.length === 0) {
      s.points = curve(bottom(from), top(to));
      s.faint = true;
    } else {
      // Edges of expanded scopes begin and end where those inside do.
      if (from.open && s.points[1].y > from.y + from.h) s.points = [bottom(from), ...s.points.slice(1)];
      if (to.open && s.points[s.points.length - 2].y < to.y) s.points = [...s.points.slice(0, -1), top(to)];
    }
  }
  return { placed, order, segments, shown, width: whole.w - 2 * PAD, height: whole.h - 2 * PAD - HEADER };
}

// A smooth path along the points: straight to the middle of the first pair, then a quadratic curve around each point.
export function pathOf(points: Point[]): string {
  const f = (n: number) => n.toFixed(1);
  const [p] = points;
  let d = `M${f(p.x)},${f(p.y)}`;
  for (let i = 1; i + 1 < points.length; i++) {
    const a = points[i],
      b = points[i + 1];
    const last = i + 2 === points.length;
    d += `Q${f(a.x)},${f(a.y)} ${f(last ? b.x : (a.x + b.x) / 2)},${f(last ? b.y : (a.y + b.y) / 2)}`;
  }
  if (points.length === 2) d += `L${f(points[1].x)},${f(points[1].y)}`;
  return d;
}

// Points close to each other on the path of pathOf, for what moves along it.
export function samplePath(points: Point[]): Point[] {
  if (points.length < 3) return points;
  const out: Point[] = [points[0]];
  let from = points[0];
  for (let i = 1; i + 1 < points.length; i++) {
    const a = points[i],
      b = points[i + 1];
    const to = i + 2 === points.length ? b : { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
    for (let k = 1; k <= 8; k++) {
      const t = k / 8,
        u = 1 - t;
      out.push({
        x: u * u * from.x + 2 * u * t * a.x + t * t * to.x,
        y: u * u * from.y + 2 * u * t * a.y + t * t * to.y,
      });
    }
    from = to;
  }
  return out;
}
