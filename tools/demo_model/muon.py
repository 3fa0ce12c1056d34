"""The Muon optimiser (momentum with orthogonalised updates) for weight matrices."""

import torch


def orthogonalise(g, steps=5):
    """Approximate the nearest semi-orthogonal matrix by Newton-Schulz iteration."""
    tall = g.shape[0] > g.shape[1]
    x = g.t() if tall else g
    x = x / (x.norm() + 1e-12)
    for _ in range(steps):
        a = x @ x.t()
        b = torch.addmm(a, a, a, beta=-4.7750, alpha=2.0315)
        x = torch.addmm(x, b, x, beta=3.4445)
    return x.t() if tall else x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum whose update is orthogonalised per matrix.

    A 3-D parameter is a stack of matrices. Updates are scaled to the root mean
    square usual for Adam, so that both can share a learning rate.
    """

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if "momentum" not in self.state[p]:
                    self.state[p]["momentum"] = torch.zeros_like(p)
                m = self.state[p]["momentum"]
                m.lerp_(p.grad, 1 - group["momentum"])
                g = p.grad.lerp(m, group["momentum"])
                p.mul_(1 - group["lr"] * group["weight_decay"])
                scale = 0.2 * max(p.shape[-2:]) ** 0.5
                pairs = zip(p, g) if p.dim() == 3 else [(p, g)]
                for weight, grad in pairs:
                    weight.add_(orthogonalise(grad), alpha=-group["lr"] * scale)
