"""What a route gets beside its input: the rest of the service, and whose request it is.

Both are ``async``: FastAPI runs a plain function in a thread, which costs more than these do.
"""

from typing import Annotated

from fastapi import Depends, Request

from serve.services import Services

__all__ = ["CalledServices", "Tenant"]


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def _tenant(request: Request) -> str:
    """Set before any route by :class:`~serve.middleware.RequestMiddleware`."""
    tenant: str = request.state.tenant
    return tenant


CalledServices = Annotated[Services, Depends(_services)]
Tenant = Annotated[str, Depends(_tenant)]
