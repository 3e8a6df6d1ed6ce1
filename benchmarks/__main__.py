"""Run every benchmark."""

from benchmarks import agents, estimators, imports, memory, mpi, scale, sdl_gradient, step


def main() -> None:
    for module in (imports, step, scale, sdl_gradient, estimators, mpi, memory, agents):
        print(f"\n{(module.__doc__ or '').splitlines()[0]}")
        module.main()


if __name__ == "__main__":
    main()
