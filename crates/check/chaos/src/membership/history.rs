//! History of writes as a tree. An operator who consents to start without a member may fork it.

#[derive(Clone, Debug)]
pub(super) struct History {
    nodes: Vec<Node>,
    /// Newest flush of each branch.
    leaves: Vec<u32>,
    /// Node from which each device may continue after a consent, even if it is old.
    consented: Vec<Option<u32>>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    parent: u32,
    depth: u32,
    /// Newest acknowledged flush up to this node.
    acked: u32,
}

impl History {
    /// Creates the history of a new volume over `devices` devices.
    pub(super) fn new(devices: usize) -> Self {
        let nodes = vec![Node { parent: 0, depth: 0, acked: 0 }];
        History { nodes, leaves: vec![0], consented: vec![None; devices] }
    }

    fn node(&self, node: u32) -> Node {
        self.nodes[node as usize]
    }

    /// Adds a device.
    pub(super) fn grow(&mut self) {
        self.consented.push(None);
    }

    /// Gives a device the consent of another, of which it is a copy.
    pub(super) fn copy(&mut self, from: usize, to: usize) {
        self.consented[to] = self.consented[from];
    }

    /// Returns the number of writes before a node.
    pub(super) fn depth(&self, node: u32) -> u32 {
        self.node(node).depth
    }

    /// Returns the newest acknowledged flush up to `node`.
    pub(super) fn acked(&self, node: u32) -> u32 {
        self.node(node).acked
    }

    /// Returns whether `to` contains everything that `from` contains.
    pub(super) fn leads_to(&self, from: u32, to: u32) -> bool {
        let (depth, mut at) = (self.depth(from), to);
        while self.depth(at) > depth {
            at = self.node(at).parent;
        }
        at == from
    }

    /// Adds a write after `parent` that is not acknowledged yet.
    pub(super) fn write(&mut self, parent: u32) -> u32 {
        let Node { depth, acked, .. } = self.node(parent);
        self.nodes.push(Node { parent, depth: depth + 1, acked });
        self.nodes.len() as u32 - 1
    }

    /// Acknowledges the flush of `node`, with these members.
    pub(super) fn promise(&mut self, node: u32, line: usize, members: impl Iterator<Item = usize>) {
        self.nodes[node as usize].acked = node;
        self.leaves[line] = node;
        members.for_each(|member| self.consented[member] = None);
    }

    /// Returns the branch with the newest flush `base` that these members may continue.
    pub(super) fn line(
        &mut self,
        base: u32,
        mut members: impl Iterator<Item = usize>,
    ) -> Option<usize> {
        let line = self.leaves.iter().position(|leaf| *leaf == base);
        let agreed = members.any(|member| self.consented[member] == Some(base));
        line.or_else(|| agreed.then(|| self.fork(base)))
    }

    /// Starts a branch at `base`, which is not the newest flush, after a consent.
    pub(super) fn fork(&mut self, base: u32) -> usize {
        self.leaves.push(base);
        self.leaves.len() - 1
    }

    /// Records a consent that these members continue from `base`.
    pub(super) fn consent(&mut self, members: impl Iterator<Item = usize>, base: u32) {
        members.for_each(|member| self.consented[member] = Some(base));
    }

    /// Returns the newest flush of each branch.
    pub(super) fn leaves(&self) -> Vec<u32> {
        let mut leaves = self.leaves.clone();
        leaves.sort_unstable();
        leaves.dedup();
        leaves
    }
}
