"""Shampoo, SOAP and Muon as torch.optim.Optimizer; gram/optim.py is their public face."""

from gram._optim_base import Base

__all__ = ["Muon", "SOAP", "Shampoo"]

_COMMON = """
    params: an iterable of parameters or of groups, as of every torch.optim.Optimizer; options may
    differ by group and change between steps (lr, betas, weight_decay, refresh and others; not what
    decides which state there is). Parameters and gradients are dense tensors of the CPU or a GPU,
    float32, float64, float16 or bfloat16, any strides; the state of halves is float32. Works with
    closures, torch.amp.GradScaler, learning rate schedulers, and models under torch.compile (the
    step itself is no part of the compiled graph). not_finite: "skip" leaves out a parameter whose
    gradient holds a nan or an infinity, "raise" raises gram.LinAlgError and changes nothing.
    precision: what products of float32 are computed in: on a GPU "auto" (float32) or "tf32",
    several times faster with 11 bits; Muon's by "auto" in bfloat16 on GPUs from Ampere on and on
    processors with AVX512_BF16, by "f32" in float32.

    state_dict holds copies; it can be saved with torch.save, loaded with any map_location, and goes
    on exactly where it was.  process_group shares the work of blocks out to the ranks of a group of
    torch.distributed, whose gradients must be equal (as DistributedDataParallel makes them); every
    rank holds the state of its own blocks alone, and directions are added up by one all-reduce.

    Raises ValueError for numbers that cannot be and for parameters that changed their shape,
    TypeError for sparse gradients, gram.LinAlgError where roots fail again and again.
"""


def _collect(given):
    """The options of a class from its arguments, the process group apart."""
    defaults = {k: v for k, v in given.items() if k not in ("self", "params", "__class__")}
    return defaults, defaults.pop("process_group")


class Shampoo(Base):
    """Shampoo: gradients times inverse roots of their Gram matrices along every dimension.

    A parameter W of order o (its number of dimensions, after small ones are merged, cut into blocks
    with sides of at most block), its gradient G at step t, G_k the matrix with dimension k as rows:

        L_k = beta2 L_k + (1 - beta2) G_k G_k^T             (beta2 = 1: the sum)
        X_k = (max(A, 0) + r I)^(-1 / (2 o)),               every refresh steps, from step start on
              A = L_k / (1 - beta2^n)
        F   = beta3 M + (1 - beta3) G, / (1 - beta3 beta1^(t - 1));  M = beta1 M + (1 - beta1) G
        P   = F x_1 X_1 ... x_o X_o;  with a graft: P |graft(F)| / |P|;  before start: graft(F)
        P  += weight_decay W                                (decoupled; else G += weight_decay W)
        B   = momentum B + (1 - dampening) P;               P = B, or P + momentum B (nesterov)
        W  -= lr P

    r is eps (relative_eps: times m, the largest eigenvalue of A), and at least 2^-20 m (L_k of
    float64: n 2^-50 m of an n by n matrix), which is what rounding leaves of an eigenvalue of 0;
    for roots by iterations in float32 at least 2^-16 m (float64: 2^-40 m) and twice the magnitude
    of a negative eigenvalue. So factors of any rank have roots, that of 0 is I where eps is 0.

    lr 0.01, betas (0.9, 1.0), eps 1e-12, beta3 None (beta1), graft "adam" (or None, "sgd",
    "adagrad", "rmsprop"; None is Shampoo as it was published) with graft_beta2 0.999 and graft_eps
    1e-8, block 1024, merge True, start None (refresh), refresh 10, statistics 1 (L_k changes in
    step 1 and every so many steps, n times so far), stagger False (True: blocks take turns, so that
    no step takes all roots), exponent None (1 / (2 o)), root as the method of
    gram.matrix_power, root_precision as its precision ("auto"), skip 0 (roots that still fit within
    this stay), failures 3 (of roots in a row, which keep the previous one), state_dtype None
    ("float32", "float64", "bfloat16"), packed True (symmetric state as triangles). To come from
    Adam: its betas and lr.

    Memory of an m by n block: m (m + 1) + n (n + 1) numbers for factors and roots (packed; twice
    that otherwise), and m n each for M, for B where momentum is not 0, and for the second moment of
    a graft beyond "sgd".

    Sources: Gupta, Koren, Singer, "Shampoo", 2018; Shi et al., "A distributed data-parallel PyTorch
    implementation of the distributed Shampoo optimizer", 2023; Anil et al. 2020 (grafts).

    >>> import torch, gram.optim
    >>> model = torch.nn.Linear(3, 2)
    >>> optimizer = gram.optim.Shampoo(model.parameters(), lr=0.01)
    >>> x = torch.ones(4, 3)
    >>> before = model(x).square().mean()
    >>> before.backward()
    >>> optimizer.step()
    >>> bool(model(x).square().mean() < before)
    True
    """

    _method = "shampoo"

    def __init__(self, params, lr=0.01, betas=(0.9, 1.0), eps=1e-12, weight_decay=0.0, *,
                 beta3=None, relative_eps=False, momentum=0.0, dampening=0.0, nesterov=False,
                 decoupled=True, bias_correction=True, graft="adam", graft_beta2=0.999,
                 graft_eps=1e-8, block=1024, merge=True, start=None, refresh=10, statistics=1,
                 stagger=False, exponent=None, root="auto", skip=0.0, failures=3, state_dtype=None,
                 packed=True, not_finite="skip", precision="auto", root_precision="auto",
                 process_group=None):  # fmt: skip
        super().__init__(params, *_collect(locals()))


class SOAP(Base):
    """SOAP: Adam in the slowly turning eigenbasis of Shampoo's factors.

    For a parameter W with gradient G, G_k the matrix with dimension k as rows, Q_k the basis of
    dimension k (none where its side is above block, and for vectors unless one_dimensional):

        step 1:  L_k = (1 - b) G_k G_k^T, Q_k its eigenvectors, W stays           (b: shampoo_beta)
        G' = G x_k Q_k^T;  M' = beta1 M' + (1 - beta1) G';  V = beta2 V + (1 - beta2) G'^2
        U  = M' / (sqrt(V) + eps) x_k Q_k, times sqrt(1 - beta2^t) / (1 - beta1^t)
        W -= lr U;  W -= lr weight_decay W
        L_k = b L_k + (1 - b) G_k G_k^T
        every refresh steps: columns of Q_k (and V with them) in the order of diag(Q_k^T L_k Q_k),
        Q_k = qr(L_k Q_k);  M' is turned into the new basis.

    lr 0.003, betas (0.95, 0.95), eps 1e-8, weight_decay 0.01, shampoo_beta None (beta2), refresh
    10, block 10000, merge False, one_dimensional False, normalize False (True: U has root mean
    square 1), bias_correction True, state_dtype None, packed True.

    Memory of an m by n parameter: m (m + 1) / 2 + m m + n (n + 1) / 2 + n n numbers for factors and
    bases (packed), and 2 m n for M and V.

    Source: Vyas et al., "SOAP: improving and stabilizing Shampoo using Adam", 2024.

    >>> import torch, gram.optim
    >>> model = torch.nn.Linear(3, 2)
    >>> optimizer = gram.optim.SOAP(model.parameters(), lr=0.01)
    >>> losses = []
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     losses.append(model(torch.ones(4, 3)).square().mean())
    ...     losses[-1].backward()
    ...     optimizer.step()
    >>> bool(losses[-1] < losses[0])
    True
    """

    _method = "soap"

    def __init__(self, params, lr=0.003, betas=(0.95, 0.95), eps=1e-8, weight_decay=0.01, *,
                 shampoo_beta=None, refresh=10, block=10000, merge=False, one_dimensional=False,
                 normalize=False, decoupled=True, bias_correction=True, state_dtype=None,
                 packed=True, not_finite="skip", precision="auto",
                 process_group=None):  # fmt: skip
        super().__init__(params, *_collect(locals()))


class Muon(Base):
    """Muon: momentum whose matrices are made nearly orthogonal.

    For a parameter W of two or more dimensions, seen as rows by the rest (r by c), gradient G:

        B  = momentum B + G;  X = B, or G + momentum B (nesterov);  X /= |X|
        steps times: A = X X^T, X = 3.4445 X + (-4.7750 A + 2.0315 A A) X
        W -= lr (max(1, r / c)^(1/2) X + weight_decay W)

    Vectors and scalars are Adam's, with betas and eps, at the same lr.  Embeddings and the last
    layer are better left to AdamW, as its author advises: a group, or an optimizer, of their own.

    lr 0.02, momentum 0.95, nesterov True, steps 5, weight_decay 0, betas (0.9, 0.95) and eps 1e-8
    of Adam, state_dtype None. Products of float32 are of bfloat16 where the device has them, with
    sums in float32: directions differ by about 0.01 of their length; precision="f32" does without.

    Memory: one number an element; two for vectors and scalars.

    Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024.

    >>> import torch, gram.optim
    >>> model = torch.nn.Linear(3, 2)
    >>> optimizer = gram.optim.Muon(model.parameters(), lr=0.02)
    >>> before = model(torch.ones(4, 3)).square().mean()
    >>> before.backward()
    >>> optimizer.step()
    >>> bool(model(torch.ones(4, 3)).square().mean() < before)
    True
    """

    _method = "muon"

    def __init__(self, params, lr=0.02, momentum=0.95, weight_decay=0.0, *, nesterov=True, steps=5,
                 betas=(0.9, 0.95), eps=1e-8, decoupled=True, bias_correction=True,
                 state_dtype=None, not_finite="skip", precision="auto",
                 process_group=None):  # fmt: skip
        super().__init__(params, *_collect(locals()))


for _class in (Shampoo, SOAP, Muon):
    _class.__module__ = "gram.optim"
    _class.__doc__ += _COMMON
