"""threadpoolctl sees and sets the number of threads, whichever of the two is imported first."""

import sys

from gram import _core


def _register(threadpoolctl):
    class GramController(threadpoolctl.LibController):
        """gram.get_threads and gram.set_threads as threadpoolctl wants them."""

        user_api = "gram"
        internal_api = "gram"
        filename_prefixes = (_core.__file__.rpartition("/")[2].lower(),)
        check_symbols = ("gram_context_create",)

        def get_num_threads(self):
            return _core.get_threads()

        def set_num_threads(self, num_threads):
            _core.set_threads(num_threads)

        def get_version(self):
            return _core.__version__

    threadpoolctl.register(GramController)


class _Finder:
    """Waits for the first import of threadpoolctl, and registers when that is done."""

    def find_spec(self, name, path=None, target=None):
        if name != "threadpoolctl":
            return None
        import importlib.util

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                if hasattr(module, "register"):  # from 3.5 on
                    _register(module)

            spec.loader.exec_module = exec_module
        return spec


def watch():
    """Registers now, or when threadpoolctl is imported: importing it here would take a while."""
    module = sys.modules.get("threadpoolctl")
    if module is None:
        sys.meta_path.insert(0, _Finder())
    elif hasattr(module, "register"):
        _register(module)
