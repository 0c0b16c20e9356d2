"""Rows of results, and their table."""
import statistics
import sys


def progress(text):
    print(text, file=sys.stderr, flush=True)


def compare(group, row, unit, samples, ours, theirs, mark=None, scale=1.0, note=""):
    """A row of two contenders. The mark is ("at least" or "at most", number); `scale` multiplies the samples of the peer."""
    mine, peer = samples[ours], [value * scale for value in samples[theirs]]
    ratios = sorted(a / b for a, b in zip(mine, peer) if b)
    result = {
        "group": group,
        "row": row,
        "unit": unit,
        "sinew": statistics.median(mine),
        "peer": statistics.median(peer),
        "against": theirs,
        "note": note,
        "samples": {"sinew": mine, "peer": peer},
    }
    if not ratios:
        return result
    ratio = statistics.median(ratios)
    result |= {"ratio": ratio, "ratio_min": ratios[0], "ratio_max": ratios[-1]}
    if mark:
        sense, number = mark
        result |= {"mark": f"{sense} {number:g}", "holds": ratio >= number if sense == "at least" else ratio <= number}
    return result


def single(group, row, unit, values, mark=None, note=""):
    """A row without a peer."""
    median = statistics.median(values)
    result = {"group": group, "row": row, "unit": unit, "sinew": median, "note": note, "samples": {"sinew": values}}
    if mark:
        sense, number = mark
        result |= {"mark": f"{sense} {shown(number)}", "holds": median >= number if sense == "at least" else median <= number}
    return result


def shown(value):
    """A number with three significant digits."""
    if value is None:
        return ""
    for unit, size in (("M", 1e6), ("k", 1e4)):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g} {unit}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def markdown(about, rows):
    peers = ", ".join(about["peers"].values())
    quick = " A quick run: it shows that every row works, its figures mean nothing." if about["quick"] else ""
    lines = [
        f"{about['sinew']} beside {peers}; Linux {about['kernel']}, {about['processors']} processors, load {about['load']:.1f}; "
        f"{about['repeats']} repeats of {about['seconds']:g} s.{quick}",
        "",
        "| group | row | Sinew | peer | ratio (lowest to highest) | mark | |",
        "|---|---|---:|---:|---|---|---|",
    ]
    for row in rows:
        unit = row.get("unit", "")
        peer = f"{shown(row['peer'])} {row['against']}" if "peer" in row else ""
        ratio = f"{row['ratio']:.2f} ({row['ratio_min']:.2f} to {row['ratio_max']:.2f})" if "ratio" in row else ""
        verdict = {True: "holds", False: "misses"}.get(row.get("holds"), "")
        if row.get("note"):
            verdict = f"{verdict}; {row['note']}" if verdict else row["note"]
        value = f"{shown(row.get('sinew'))} {unit}".strip()
        lines.append(f"| {row['group']} | {row['row']} | {value} | {peer} | {ratio} | {row.get('mark', '')} | {verdict} |")
    return "\n".join(lines)
