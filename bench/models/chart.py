"""A bar for each model: how much faster than the best peer. SVG without scripts, readable on light and dark pages."""
from xml.sax.saxutils import escape

LABEL, BAR, ROW, TOP = 250, 470, 20, 46
FASTER, SLOWER = "#3a7d44", "#b3541e"


def svg(rows):
    """The chart of the rows of a Report."""
    rows = [row for row in rows if "error" not in row]
    most = max([row["ratio"] for row in rows] + [2.0])
    scale = BAR / most
    height = TOP + ROW * len(rows) + 12
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LABEL + BAR + 60} {height}" role="img"'
        ' font-family="sans-serif" font-size="12" fill="#777">',
        "<title>CPU time of the best peer, divided by ours</title>",
        f'<text x="{LABEL}" y="16">CPU time of the best peer / ours: to the right of the line, we are faster</text>',
    ]
    for i, row in enumerate(rows):
        y = TOP + ROW * i
        width = row["ratio"] * scale
        color = FASTER if row["ratio"] >= 1 else SLOWER
        name = escape(f"{row['kind']} {row['name'].replace('_', ' ')}")
        out.append(f'<text x="{LABEL - 8}" y="{y + 13}" text-anchor="end">{name}</text>')
        out.append(f'<rect x="{LABEL}" y="{y + 3}" width="{width:.1f}" height="13" fill="{color}"/>')
        out.append(f'<text x="{LABEL + width + 6:.1f}" y="{y + 13}">{row["ratio"]:.2f}</text>')
    one = LABEL + scale
    out.append(f'<line x1="{one:.1f}" x2="{one:.1f}" y1="{TOP - 6}" y2="{height - 10}" stroke="#777"/>')
    out.append(f'<text x="{one:.1f}" y="{TOP - 12}" text-anchor="middle">1.0</text>')
    out.append("</svg>\n")
    return "\n".join(out)
