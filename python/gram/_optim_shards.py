"""Parameters of fully_shard (FSDP2): whole on the rank that steps them, in shards on all others.

Each DTensor of a group of parameters has an owner, one rank of the mesh's dimension that shards it.
In a step all ranks send their shards of gradients and parameters to the owners, in one exchange
each; the owner steps whole parameters with the state that it alone holds, and sends shards back.
"""

import sys

import torch


def dtensor_type():
    """torch.distributed.tensor.DTensor, or () where nobody has imported it."""
    for name in ("torch.distributed.tensor", "torch.distributed._tensor"):
        found = getattr(sys.modules.get(name), "DTensor", None)
        if found is not None:
            return found
    return ()


def is_sharded(p):
    """Whether p is a DTensor that is not whole on every rank."""
    return isinstance(p, dtensor_type()) and not all(e.is_replicate() for e in p.placements)


def local_of(p):
    """What this rank has of a DTensor; another tensor itself."""
    return p.to_local() if isinstance(p, dtensor_type()) else p


def sharding_of(where, p):
    """(mesh dimension, dimension of p) by which p is sharded, the only one."""
    found = [(i, e) for i, e in enumerate(p.placements) if not e.is_replicate()]
    if len(found) != 1 or not found[0][1].is_shard() or type(found[0][1]).__name__ != "Shard":
        raise NotImplementedError(
            f"{where} has the placements {tuple(p.placements)}, expected one Shard and else "
            "Replicate, as of fully_shard"
        )
    return found[0][0], found[0][1].dim


def _extent(size, ranks, rank):
    """How much of a dimension a rank has, as torch.chunk cuts it."""
    chunk = -(-size // ranks)
    return max(0, min(size, (rank + 1) * chunk) - rank * chunk)


def _cut(flat, shapes):
    """Tensors of these shapes, one after another in a flat one."""
    parts = flat.split([shape.numel() for shape in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


def _cost(p, block):
    """What a step costs: products of a matrix of each side, and passes over the elements."""
    return p.numel() * (8 + sum(min(n, block) for n in p.shape if p.dim() > 1))


class Shards:
    """Who has which parameter of a group, and how they travel."""

    def __init__(self, name, number, params, block):
        self.params, self.name = params, name
        self.dim, groups = {}, {}
        for j, p in enumerate(params):
            if is_sharded(p):
                mesh_dim, self.dim[j] = sharding_of(f"{name}: parameter {j} of group {number}", p)
                group = p.device_mesh.get_group(mesh_dim)
                groups[tuple(torch.distributed.get_process_group_ranks(group))] = group
        if len(groups) > 1:
            raise NotImplementedError(
                f"{name}: the parameters of group {number} are sharded over {len(groups)} sets of "
                "ranks, expected one; make them groups of their own"
            )
        self.group = next(iter(groups.values()))
        self.ranks = torch.distributed.get_world_size(self.group)
        self.rank = torch.distributed.get_rank(self.group)
        for j, p in enumerate(params):
            if j in self.dim and local_of(p).shape != self._shape(j, self.rank):
                raise NotImplementedError(
                    f"{name}: parameter {j} of group {number} has a shard "
                    f"{tuple(local_of(p).shape)} on rank {self.rank}, expected "
                    f"{tuple(self._shape(j, self.rank))}"
                )
        self.owner = self._owners(block)
        # What this rank steps: its own, and those that are whole on all ranks.
        self.own = [j for j in range(len(params)) if self.owner.get(j, self.rank) == self.rank]

    def _owners(self, block):
        """{number: rank}: the dearest first, each to the rank that has the least to do."""
        order = sorted(self.dim, key=lambda j: (-_cost(self.params[j], block), j))
        load, owner = [0] * self.ranks, {}
        for j in order:
            owner[j] = load.index(min(load))
            load[owner[j]] += _cost(self.params[j], block)
        return owner

    def _shape(self, j, rank):
        shape = list(self.params[j].shape)
        shape[self.dim[j]] = _extent(shape[self.dim[j]], self.ranks, rank)
        return torch.Size(shape)

    def empty(self):
        """Whole tensors, without values, as those that this rank steps."""
        return [
            torch.empty(p.shape, dtype=p.dtype, device=p.device)
            for p in (self.params[j] for j in self.own)
        ]

    def _exchange(self, parts, counts):
        """What all ranks send to this one, flat; parts and counts: of each rank."""
        given = torch.cat([part.reshape(-1) for rank in parts for part in rank])
        sizes = [sum(part.numel() for part in rank) for rank in parts]
        out = given.new_empty(sum(counts))
        torch.distributed.all_to_all_single(out, given, counts, sizes, group=self.group)
        return out.split(counts)

    @staticmethod
    def _dtypes(dtype_of):
        """Numbers by their dtype, in one order on all ranks."""
        by = {}
        for j in sorted(dtype_of):
            by.setdefault(dtype_of[j], []).append(j)
        return [by[dtype] for dtype in sorted(by, key=str)]

    def gather(self, tensors):
        """{number: whole tensor} of those that this rank steps, from {number: tensor} of all."""
        whole = {j: local_of(t) for j, t in tensors.items() if j not in self.dim}
        shards = {}
        for j, t in tensors.items():
            if j in self.dim:
                p = self.params[j]
                if t is not p and tuple(t.placements) != tuple(p.placements):
                    t = t.redistribute(p.device_mesh, p.placements)
                shards[j] = local_of(t)
        for members in self._dtypes({j: t.dtype for j, t in shards.items()}):
            parts = [[shards[j] for j in members if self.owner[j] == r] for r in range(self.ranks)]
            own = [j for j in members if self.owner[j] == self.rank]
            empty = shards[members[0]].new_empty(0)
            shapes = [[self._shape(j, r) for j in own] for r in range(self.ranks)]
            counts = [sum(shape.numel() for shape in row) for row in shapes]
            came = self._exchange([[empty, *row] for row in parts], counts)
            pieces = [_cut(flat, row) for flat, row in zip(came, shapes, strict=True)]
            for k, j in enumerate(own):
                whole[j] = torch.cat([row[k] for row in pieces], self.dim[j])
        return whole

    def scatter(self, whole, used):
        """Copies what this rank has stepped to the shards of the numbers in used, on all ranks."""
        used = [j for j in used if j in self.dim]
        for members in self._dtypes({j: self.params[j].dtype for j in used}):
            empty = local_of(self.params[members[0]]).new_empty(0)
            parts = [[empty] for _ in range(self.ranks)]
            for j in (j for j in members if self.owner[j] == self.rank):
                sizes = [_extent(self.params[j].shape[self.dim[j]], self.ranks, r)
                         for r in range(self.ranks)]  # fmt: skip
                for row, part in zip(parts, whole[j].split(sizes, self.dim[j]), strict=True):
                    row.append(part)
            theirs = [[j for j in members if self.owner[j] == r] for r in range(self.ranks)]
            counts = [sum(local_of(self.params[j]).numel() for j in row) for row in theirs]
            for flat, row in zip(self._exchange(parts, counts), theirs, strict=True):
                shards = [local_of(self.params[j]) for j in row]
                for shard, new in zip(shards, _cut(flat, [s.shape for s in shards]), strict=True):
                    shard.copy_(new)

    def agree(self, trouble):
        """Raises on all ranks where one is in trouble."""
        device = local_of(self.params[next(iter(self.dim))]).device
        told = torch.full((1,), float(trouble is not None), device=device)
        torch.distributed.all_reduce(told, group=self.group)
        if trouble is not None:
            raise trouble
        if told.item() > 0:
            raise RuntimeError(f"{self.name}: the step failed on another rank")
