//! Import cycles: sets of files in which each file leads to every other.

use std::collections::BTreeSet;

/// Returns the cycles of two files or more, the largest first. `edges` has the files that each file
/// imports.
pub(super) fn circles(edges: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let reach: Vec<Vec<bool>> = (0..edges.len()).map(|from| reached(edges, from)).collect();
    let mut done = vec![false; edges.len()];
    let mut found = Vec::new();
    for from in 0..edges.len() {
        if done[from] || !reach[from][from] {
            continue;
        }
        let both = |to: &usize| reach[from][*to] && reach[*to][from];
        let circle: Vec<usize> = (0..edges.len()).filter(both).collect();
        circle.iter().for_each(|&file| done[file] = true);
        found.push(circle);
    }
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

/// Marks the files that can be reached from `from` in one step or more.
fn reached(edges: &[BTreeSet<usize>], from: usize) -> Vec<bool> {
    let mut seen = vec![false; edges.len()];
    let mut open: Vec<usize> = edges[from].iter().copied().collect();
    while let Some(at) = open.pop() {
        if !seen[at] {
            seen[at] = true;
            open.extend(&edges[at]);
        }
    }
    seen
}
