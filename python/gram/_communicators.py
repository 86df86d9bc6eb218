"""gram.Communicator.from_torch and others: an id of NCCL travels by what the ranks have already.

The rank that makes the id may fail, as without a GPU: then its exception travels in the place of
the id, and is raised on all ranks.
"""

import gram


def _new_id(device):
    try:
        return gram.nccl_id(device)
    except Exception as e:
        return e


def _checked(number):
    if isinstance(number, Exception):
        raise number
    return number


def from_torch(cls, group=None, *, device=None, stream=None, timeout=0.0):
    import torch

    distributed, name = torch.distributed, "gram.Communicator.from_torch"
    if not distributed.is_available() or not distributed.is_initialized():
        raise RuntimeError(
            f"{name}: torch.distributed is not initialised: call "
            "torch.distributed.init_process_group first"
        )
    rank, size = distributed.get_rank(group), distributed.get_world_size(group)
    if rank < 0:
        raise ValueError(f"{name}: this process is not in the group")
    if device is None:
        backend = distributed.get_backend(group)
        if "nccl" not in backend:
            raise NotImplementedError(
                f"{name}: the backend of the group is {backend}, which has no transport for "
                "arrays on CPUs here: start the ranks with mpirun or srun for "
                "gram.Communicator(), or give the GPU of this rank by device"
            )
        device = f"cuda:{torch.cuda.current_device()}"
    number = [_new_id(device) if rank == 0 else None]
    source = 0 if group is None else distributed.get_global_rank(group, 0)
    distributed.broadcast_object_list(number, src=source, group=group)
    return cls(
        nccl=_checked(number[0]), rank=rank, size=size, device=device, stream=stream,
        timeout=timeout,
    )  # fmt: skip


def from_mpi4py(cls, comm, *, device=None, stream=None, timeout=0.0):
    if device is None:
        return cls(comm)
    rank = comm.Get_rank()
    number = comm.bcast(_new_id(device) if rank == 0 else None, root=0)
    return cls(
        nccl=_checked(number), rank=rank, size=comm.Get_size(), device=device, stream=stream,
        timeout=timeout,
    )  # fmt: skip


def _devices_of(name, device, size):
    """One for each rank, of one for all or of a list."""
    if isinstance(device, (list, tuple)):
        if len(device) != size:
            raise ValueError(f"{name}: device has {len(device)} names, expected {size}")
        return list(device)
    return [device] * size


def _rank(number, rank, size, device, timeout):
    return gram.Communicator(nccl=number, rank=rank, size=size, device=device, timeout=timeout)


def from_dask(cls, client, workers=None, *, device="cuda", timeout=0.0):
    from distributed import as_completed

    name = "gram.Communicator.from_dask"
    there = list(client.nthreads())
    workers = there if workers is None else list(workers)
    if not workers or len(set(workers)) < len(workers) or not set(workers) <= set(there):
        raise ValueError(f"{name}: workers is {workers}, expected different ones of {there}")
    devices = _devices_of(name, device, len(workers))

    def submit(function, worker, *arguments):
        return client.submit(
            function, *arguments, workers=[worker], allow_other_workers=False, pure=False
        )

    number = _checked(submit(_new_id, workers[0], devices[0]).result())
    futures = [
        submit(_rank, worker, number, rank, len(workers), devices[rank], timeout)
        for rank, worker in enumerate(workers)
    ]
    for future in as_completed(futures):
        if future.status != "finished":  # the others end after their timeout
            raise future.exception()
    return futures


def _keep(actor, attribute, *arguments):
    setattr(actor, attribute, _rank(*arguments))


def _id_of_actor(actor, device):
    return _new_id(device)


def from_ray(cls, actors, *, attribute="communicator", device="cuda", timeout=0.0):
    import ray

    name, actors = "gram.Communicator.from_ray", list(actors)
    if not actors:
        raise ValueError(f"{name}: actors is empty")
    devices = _devices_of(name, device, len(actors))
    number = _checked(ray.get(actors[0].__ray_call__.remote(_id_of_actor, devices[0])))
    ray.get([
        actor.__ray_call__.remote(
            _keep, attribute, number, rank, len(actors), devices[rank], timeout
        )
        for rank, actor in enumerate(actors)
    ])  # fmt: skip
