"""Reading objects of which only the spec may be wrong, so that they can still be torn down."""

from typing import Any, TypeVar, cast

from controller.api.resource import InvalidSpecError, Resource
from controller.reconcile.cache import Body

ResourceT = TypeVar("ResourceT", bound=Resource[Any, Any])


def read_object(model: type[ResourceT], body: Body) -> tuple[ResourceT, str]:
    """The object, and "" or what is wrong with its spec; in that case `spec` is not set and must not be touched.

    Only an object that was stored under an older or foreign CRD can be wrong: the present one refuses it.
    """
    try:
        return model.parse(body), ""
    except InvalidSpecError as error:
        parts: dict[str, Any] = {"metadata": error.metadata, "spec": None, "status": error.status}
        return cast("ResourceT", model.model_construct(**parts)), error.message
