# What the measurements share.

# Reads numbers, one a line; prints their median and spread with so many digits behind the point.
spread() {
    sort -g | awk -v digits="${1:-0}" '{ v[NR] = $1 } END {
        m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
        f = "%." digits "f"
        printf f " (" f "–" f ")", m, v[1], v[NR] }'
}
