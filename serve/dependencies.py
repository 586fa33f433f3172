"""What a route gets beside its input: the rest of the service, and whose request it is."""

from typing import Annotated

from fastapi import Depends, Request

from serve.services import Services

__all__ = ["CalledServices", "Tenant"]


def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


def _tenant(request: Request) -> str:
    """Set before any route by :class:`~serve.middleware.RequestMiddleware`."""
    tenant: str = request.state.tenant
    return tenant


CalledServices = Annotated[Services, Depends(_services)]
Tenant = Annotated[str, Depends(_tenant)]
