// The field that finds a node of the graph by its name.
import { useState } from "preact/hooks";
import { deviceColor, result } from "./state";
import type { NodeResult } from "./types";
import { bothNames, knownAs, opName, shorten } from "./scopes";

const MATCHES = 12;

// Nodes whose name or op is the text first, then names that begin with it, then those in which a part does, then all
// others that contain it. Constants, which few people look for, come last.
function findNodes(nodes: NodeResult[], text: string): { found: NodeResult[]; more: number } {
  const want = text.trim().toLowerCase();
  if (!want) return { found: [], more: 0 };
  const ranked: NodeResult[][] = [[], [], [], [], [], []];
  let all = 0;
  for (const n of nodes) {
    const names = [knownAs(n).toLowerCase(), n.name.toLowerCase()];
    const how = names.some((s) => s.startsWith(want))
      ? 0
      : names.some((s) => s.includes("/" + want))
        ? 1
        : names.some((s) => s.includes(want)) || n.op.toLowerCase().includes(want)
          ? 2
          : -1;
    if (how < 0) continue;
    const rank = n.op.toLowerCase() === want || names.includes(want) ? 0 : n.op === "Const" && want !== "const" ? 5 : how + 1;
    all++;
    if (ranked[rank].length < MATCHES) ranked[rank].push(n);
  }
  const found = ranked.flat().slice(0, MATCHES);
  return { found, more: all - found.length };
}

export function Search({ onPick }: { onPick: (name: string) => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const [open, setOpen] = useState(false);
  const { found, more } = findNodes(result.value?.nodes ?? [], open ? text : "");
  const pick = (n: NodeResult | undefined) => {
    if (!n) return;
    setOpen(false);
    setText(knownAs(n));
    onPick(n.name);
  };
  const onKey = (e: KeyboardEvent) => {
    if (e.key === "ArrowDown") setAt(Math.min(at + 1, found.length - 1));
    else if (e.key === "ArrowUp") setAt(Math.max(at - 1, 0));
    else if (e.key === "Enter") pick(found[at]);
    else if (e.key === "Escape") setOpen(false);
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <div class="graph-search">
      <input
        type="search"
        placeholder="Find a node"
        aria-label="Find a node"
        data-test="graph-search"
        role="combobox"
        aria-expanded={found.length > 0}
        aria-controls="graph-matches"
        aria-autocomplete="list"
        aria-activedescendant={found.length > 0 ? `graph-match-${at}` : undefined}
        autocomplete="off"
        spellcheck={false}
        list={undefined}
        value={text}
        onKeyDown={onKey}
        onBlur={() => setTimeout(() => setOpen(false), 150)}
        onInput={(e) => {
          setText(e.currentTarget.value);
          setAt(0);
          setOpen(true);
        }}
      />
      {open && text.trim() !== "" && (
        <ul id="graph-matches" role="listbox" aria-label="Nodes found">
          {found.map((n, i) => (
            <li
              key={n.name}
              id={`graph-match-${i}`}
              role="option"
              aria-selected={i === at}
              data-test="graph-match"
              onPointerDown={(e) => {
                e.preventDefault();
                pick(n);
              }}>
              <i style={{ background: deviceColor(n.device) }} />
              <span title={bothNames(n)}>{shorten(knownAs(n), 44)}</span>
              <small>{opName(n.op)}</small>
            </li>
          ))}
          {found.length === 0 && (
            <li class="graph-none" role="option" aria-disabled="true" aria-selected="false">
              No node has this in its name
            </li>
          )}
          {more > 0 && (
            <li class="graph-none" role="option" aria-disabled="true" aria-selected="false">
              and {more} more
            </li>
          )}
        </ul>
      )}
    </div>
  );
}
