// The tree of boxes that the graph shows: nodes by name scope ("conv1/Conv2D" is in "conv1/"). Long lists of children
// are divided further, so that no level is too large to lay out and to read:
//
// - a series such as Const, Const_1, Const_2 becomes one box "Const x 3";
// - what is still a long list is cut into runs of neighbours.
//
// Such groups are scopes too. Their keys contain "*" or "#", which no node name does.
import type { NodeResult } from "./types";

// What an op is called on the page: those that TensorFlow adds at the edges of a step have no plain names.
export const opName = (op: string) =>
  op === "_Arg" ? "input of the step" : op === "_Retval" ? "output of the step" : op;

export type Kind = "node" | "scope" | "series" | "run";

export interface Box {
  id: number; // the same in every tree for the same key
  key: string; // name of the node, or of the scope with a final slash
  label: string; // the last part of the name
  kind: Kind;
  parent: Box | null; // null: the root
  children: Box[];
  node: number; // number in the result, or -1
  count: number; // nodes inside
  first: number; // lowest number of a node inside
  depth: number; // of the root: 0
}

export interface Tree {
  root: Box;
  boxes: Box[];
  byKey: Map<string, Box>;
  ofNode: Box[]; // by number of the node
}

const MOST = 60; // boxes of one level
const RUNS = 40; // into which a longer level is cut
const SERIES = 5; // fewer members stay single
const SHORT = 20; // up to so many children show each node, because series hide the order in which they run

export function isScope(b: Box): boolean {
  return b.kind !== "node";
}

// A scope that the simulator knows too: its key is a prefix of node names.
export function isNameScope(key: string): boolean {
  return key.endsWith("/") && !/[*#]/.test(key);
}

// Ids outlive a tree: nodes such as constants come and go with the placement, and the elements of all other boxes and
// edges must stay.
const ids = new Map<string, number>();
const MOST_IDS = 1 << 20;

function idOf(key: string): number {
  let id = ids.get(key);
  if (id === undefined) ids.set(key, (id = ids.size));
  return id;
}

export function buildTree(nodes: NodeResult[]): Tree {
  if (ids.size > MOST_IDS) ids.clear();
  const boxes: Box[] = [];
  const byKey = new Map<string, Box>();
  const add = (key: string, label: string, kind: Kind, parent: Box | null, node: number): Box => {
    const b: Box = { id: idOf(key), key, label, kind, parent, children: [], node, count: 0, first: node, depth: 0 };
    boxes.push(b);
    byKey.set(key, b);
    return b;
  };
  const root = add("", "", "scope", null, -1);

  const scopeOf = (prefix: string): Box => {
    const known = byKey.get(prefix);
    if (known) return known;
    const cut = prefix.lastIndexOf("/", prefix.length - 2) + 1;
    const parent = scopeOf(prefix.slice(0, cut));
    const b = add(prefix, prefix.slice(cut, -1), "scope", parent, -1);
    parent.children.push(b);
    return b;
  };

  const ofNode = nodes.map((n, i) => {
    const cut = n.name.lastIndexOf("/") + 1;
    const parent = scopeOf(n.name.slice(0, cut));
    const b = add(n.name, n.name.slice(cut), "node", parent, i);
    b.count = 1;
    parent.children.push(b);
    return b;
  });

  const group = (parent: Box, members: Box[], key: string, label: string, kind: Kind): Box => {
    const g = add(key, label, kind, parent, -1);
    g.children = members;
    for (const m of members) m.parent = g;
    return g;
  };

  // Replaces members of a series by one box each, in the place of the first member.
  const groupSeries = (b: Box, kind: "node" | "scope") => {
    const series = new Map<string, Box[]>();
    const baseOf = (c: Box) => {
      const base = kind === "node" ? c.label.replace(/_\d+$/, "") : c.label.replace(/_?\d+$/, "");
      return kind === "node" ? `${base} ${nodes[c.node].op}` : base;
    };
    for (const c of b.children) {
      if (c.kind !== kind) continue;
      const base = baseOf(c);
      const list = series.get(base);
      if (list) list.push(c);
      else series.set(base, [c]);
    }
    const heads = new Map<Box, Box>();
    const inside = new Set<Box>();
    for (const [base, list] of series) {
      if (list.length < SERIES || list.length === b.children.length) continue;
      const name = base.split(" ")[0];
      let key = `${b.key}${name}*/`;
      while (byKey.has(key)) key = key.replace("*/", "**/");
      heads.set(list[0], group(b, list, key, name, "series"));
      for (const m of list) inside.add(m);
    }
    if (heads.size > 0) b.children = b.children.flatMap((c) => heads.get(c) ?? (inside.has(c) ? [] : [c]));
  };

  const cutIntoRuns = (b: Box) => {
    const n = b.children.length;
    const runs = Math.min(RUNS, Math.ceil(n / RUNS));
    const next: Box[] = [];
    for (let i = 0; i < runs; i++) {
      const part = b.children.slice(Math.floor((i * n) / runs), Math.floor(((i + 1) * n) / runs));
      const label = `${part[0].label} … ${part[part.length - 1].label}`;
      next.push(group(b, part, `${b.key}#${i + 1}/`, label, "run"));
    }
    b.children = next;
  };

  const finish = (b: Box) => {
    if (b.kind === "node") return;
    if (b.kind === "scope" && b.children.length > SHORT) groupSeries(b, "node");
    if (b.kind === "scope" && b.children.length > MOST) groupSeries(b, "scope");
    if (b.children.length > MOST) cutIntoRuns(b);
    b.count = 0;
    b.first = Infinity;
    for (let i = 0; i < b.children.length; i++) {
      let c = b.children[i];
      // A scope with a single member is drawn as that member.
      while (c.kind === "scope" && c.children.length === 1) {
        const [only] = c.children;
        only.label = `${c.label}/${only.label}`;
        only.parent = b;
        b.children[i] = c = only;
      }
      c.depth = b.depth + 1;
      finish(c);
      b.count += c.count;
      b.first = Math.min(b.first, c.first);
    }
  };
  finish(root);
  return { root, boxes, byKey, ofNode };
}

// Whether two results have the same nodes, so that a tree of one serves the other.
export function sameNodes(a: NodeResult[], b: NodeResult[]): boolean {
  return a.length === b.length && a.every((n, i) => n.name === b[i].name && n.op === b[i].op);
}

// The box that stands for b: b itself, or the outermost collapsed scope around it.
export function visibleBox(b: Box, expanded: ReadonlySet<string>): Box {
  let seen = b;
  for (let p = b.parent; p?.parent; p = p.parent) if (!expanded.has(p.key)) seen = p;
  return seen;
}

// The keys of all scopes that must be expanded for b to be seen.
export function scopesAround(b: Box): string[] {
  const keys: string[] = [];
  for (let p = b.parent; p?.parent; p = p.parent) keys.push(p.key);
  return keys;
}

// Nodes of each device inside each scope.
export function deviceShares(tree: Tree, nodes: NodeResult[], devices: string[]): Map<Box, Uint32Array> {
  const number = new Map(devices.map((d, i) => [d, i]));
  const shares = new Map<Box, Uint32Array>();
  for (const b of tree.boxes) if (b.kind !== "node") shares.set(b, new Uint32Array(devices.length));
  nodes.forEach((n, i) => {
    const d = number.get(n.device) ?? 0;
    for (let b = tree.ofNode[i].parent; b; b = b.parent) shares.get(b)![d]++;
  });
  return shares;
}

// The name that people know a node by, and the one in the graph if that is another.
export function knownAs(n: NodeResult): string {
  return n.label ?? n.name;
}

export function bothNames(n: NodeResult): string {
  return n.label === undefined ? n.name : `${n.label} (${n.name})`;
}

// Shortens a name in the middle, where names of one graph differ least: "ResourceAp…Descent_12".
export function shorten(name: string, most: number): string {
  if (name.length <= most) return name;
  const tail = Math.ceil((most - 1) / 2);
  return `${name.slice(0, most - 1 - tail)}…${name.slice(-tail)}`;
}
