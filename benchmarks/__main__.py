"""Run every benchmark."""

from benchmarks import agents, mpi, scale, sdl_gradient, step


def main() -> None:
    for module in (step, scale, sdl_gradient, mpi, agents):
        print(f"\n{(module.__doc__ or '').splitlines()[0]}")
        module.main()


if __name__ == "__main__":
    main()
