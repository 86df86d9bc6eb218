#!/usr/bin/env python3
"""check_recipe.py RECIPE - reads a recipe of conda as rattler-build does, and renders it

Without py-rattler-build it says so and ends with status 0.  Nothing is built: that takes channels
of conda.
"""

import sys

# What a channel would say: names of compilers and versions.
VARIANTS = """
c_compiler: [gcc]
c_stdlib: [sysroot]
python: ["3.11.* *_cpython"]
"""


def main():
    try:
        from rattler_build import PlatformConfig, RenderConfig, Stage0Recipe, VariantConfig
    except ImportError:
        print(f"{sys.argv[1]}: not read: no py-rattler-build")
        return 0
    recipe = Stage0Recipe.from_file(sys.argv[1])
    for platform in ("linux-64", "linux-aarch64", "osx-arm64"):
        config = RenderConfig(platform=PlatformConfig(target_platform=platform))
        rendered = recipe.render(VariantConfig.from_yaml(VARIANTS), config)
        names = [variant.recipe.package.name for variant in rendered]
        print(f"{platform}: {', '.join(names)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
