"""Options, values, profiles, points and random fields that do not fit a grid."""

from __future__ import annotations

import distarray as da
from tests.ranks.refusals import refuse

RANKS = (1, 3)
SELDOM = (1,)


def test_options_of_arrays() -> None:
    refuse(
        da.UnsupportedError,
        {
            "grid.zeros(dtype=object)": (
                "Element type <class 'object'> is not supported; use bool, an integer type, "
                "float32, float64, complex64 or complex128."
            ),
            "grid.zeros(dtype=np.float16)": (
                "Element type <class 'numpy.float16'> is not supported; use bool, an integer "
                "type, float32, float64, complex64 or complex128."
            ),
            'grid.zeros(dtype="S3")': (
                "Element type 'S3' is not supported; use bool, an integer type, float32, "
                "float64, complex64 or complex128."
            ),
            'grid.zeros(dtype="nonsense")': (
                "Element type 'nonsense' is not supported; use bool, an integer type, "
                "float32, float64, complex64 or complex128."
            ),
        },
    )
    refuse(
        da.GridError,
        {
            "grid.zeros(components=0)": (
                "Components must be whole numbers of at least 1, got components=0; use () for none."
            ),
            "grid.zeros(components=(-1,))": (
                "Components must be whole numbers of at least 1, got components=(-1,); use "
                "() for none."
            ),
            "grid.zeros(components=2.0)": (
                "Components must be whole numbers of at least 1, got components=2.0; use () "
                "for none."
            ),
            'grid.zeros(location="q")': (
                "Location 'q' must be None or distinct axes of x, y in one string, such as "
                "'x' for faces or 'xy' for nodes."
            ),
            'grid.zeros(location="xx")': (
                "Location 'xx' must be None or distinct axes of x, y in one string, such as "
                "'x' for faces or 'xy' for nodes."
            ),
            "grid.zeros(location=3)": (
                "Location 3 must be None or distinct axes of x, y in one string, such as 'x' "
                "for faces or 'xy' for nodes."
            ),
            "grid.zeros(halo=-1)": (
                "Halo widths must be whole numbers from 0, got halo=-1; use 0 for none."
            ),
            'grid.coordinates("q")': (
                "Location 'q' must be None or distinct axes of x, y in one string, such as "
                "'x' for faces or 'xy' for nodes."
            ),
            "da.Grid((9,)).empty_like(u)": (
                "$u has 2 grid axes, Grid(shape=(9,), bounds=((0.0, 1.0),), "
                "periodic=(False,), halo=(1,), ranks=($size,), device='$device') has 1; create "
                "it on a grid of as many axes."
            ),
        },
    )
    refuse(
        da.DecompositionError,
        {
            "grid.zeros(halo=(1,))": (
                "halo has 1 values for 2 axes; give one value or one per axis."
            ),
            'grid.zeros(halo="a")': (
                "halo must be whole numbers, one or one per axis, not 'a'; correct it."
            ),
            "periodic.zeros(halo=50)": (
                "Halo width 50 along axis 0 exceeds the narrowest block, $rows cells "
                "(ranks=($size, 1)); use at least 50 cells there or a smaller halo."
            ),
        },
    )
    refuse(
        da.ArrayError,
        {
            "grid.empty_like(3)": (
                "empty_like takes distributed arrays, got 3; make one with distarray.asarray."
            ),
            "grid.empty_like(np.zeros((9, 8)))": (
                "empty_like takes distributed arrays, got an array of float64; make one with "
                "distarray.asarray."
            ),
            "grid.zeros_like(None)": (
                "empty_like takes distributed arrays, got None; make one with distarray.asarray."
            ),
        },
    )


def test_values_of_new_arrays() -> None:
    refuse(
        da.ArrayError,
        {
            "grid.full(None)": (
                "Values assigned to DistArray(shape=(9, 8), dtype=float64, device='$device', "
                "ranks=($size, 1)) must be numbers of at most 64 bits or arrays of them, got "
                "None; convert what you give."
            ),
            'grid.full("a")': (
                "Values assigned to DistArray(shape=(9, 8), dtype=float64, device='$device', "
                "ranks=($size, 1)) must be numbers of at most 64 bits or arrays of them, got "
                "'a'; convert what you give."
            ),
            "grid.full([1, 2])": (
                "Values of shape (2,) do not broadcast to the part of shape (9, 8) of "
                "DistArray(shape=(9, 8), dtype=float64, device='$device', ranks=($size, 1)); "
                "match it."
            ),
            "grid.full(1j)": (
                "Values assigned to DistArray(shape=(9, 8), dtype=float64, device='$device', "
                "ranks=($size, 1)) are complex and do not fit float64; take their real part."
            ),
            "grid.full(object())": (
                "Values assigned to DistArray(shape=(9, 8), dtype=float64, device='$device', "
                "ranks=($size, 1)) must be numbers of at most 64 bits or arrays of them, got "
                "an object; convert what you give."
            ),
            "grid.full([[1], [2, 3]])": (
                "Values assigned to DistArray(shape=(9, 8), dtype=float64, device='$device', "
                "ranks=($size, 1)) must be numbers of at most 64 bits or arrays of them, got "
                "[[1], [2, 3]]; convert what you give."
            ),
            'grid.full(float("nan"), dtype=int)': (
                "Values assigned to DistArray(shape=(9, 8), dtype=int64, device='$device', "
                "ranks=($size, 1)) (nan) do not fit int64, which holds -9223372036854775808 "
                "to 9223372036854775807; use another element type."
            ),
            "grid.full(10**30, dtype=int)": (
                "Values assigned to DistArray(shape=(9, 8), dtype=int64, device='$device', "
                "ranks=($size, 1)) must be numbers of at most 64 bits or arrays of them, got "
                "1000000000000000000000000000000; convert what you give."
            ),
            "grid.full(300, dtype=np.uint8)": (
                "Values assigned to DistArray(shape=(9, 8), dtype=uint8, device='$device', "
                "ranks=($size, 1)) (300) do not fit uint8, which holds 0 to 255; use another "
                "element type."
            ),
            "grid.full(-1, dtype=np.uint8)": (
                "Values assigned to DistArray(shape=(9, 8), dtype=uint8, device='$device', "
                "ranks=($size, 1)) (-1) do not fit uint8, which holds 0 to 255; use another "
                "element type."
            ),
            "grid.full(2.0**63, dtype=np.int64)": (
                "Values assigned to DistArray(shape=(9, 8), dtype=int64, device='$device', "
                "ranks=($size, 1)) (9.223372036854776e+18) do not fit int64, which holds "
                "-9223372036854775808 to 9223372036854775807; use another element type."
            ),
            "grid.from_function(3)": "from_function takes a function, got 3; pass one.",
            "grid.from_function(lambda x: x)": (
                "The function of from_function is called as f(x, y), but it takes 1 argument (x); "
                "let it take these."
            ),
            "grid.from_function(np.sin)": (
                "The function of from_function is called as f(x, y), but it takes 1 argument "
                "(x, /); let it take these."
            ),
            "grid.from_function(lambda x, y, *, r: r * x)": (
                "The function of from_function is called as f(x, y), but it takes 3 arguments "
                "(x, y, *, r); give 'r' a default."
            ),
            'grid.from_function(lambda x, y: "a")': (
                "Values of a function must be numbers of at most 64 bits or arrays of them, "
                "got 'a'; convert what you give."
            ),
            "grid.from_function(lambda x, y: None)": (
                "Values of a function must be numbers of at most 64 bits or arrays of them, "
                "got None; convert what you give."
            ),
            "grid.from_function(lambda x, y: 1j * x)": (
                "Values of a function are complex and do not fit float64; take their real part."
            ),
            "grid.from_function(lambda x, y: [x, y])": (
                "Values of a function must be numbers of at most 64 bits or arrays of them, "
                "got a list; convert what you give."
            ),
            "grid.from_function(lambda x, y: (x, y), components=3)": (
                "A function gave 2 values for 3 components; give one for each."
            ),
            "grid.from_function(lambda x, y: np.zeros(5))": (
                "Values of shape (5,) do not broadcast to this rank's block of shape ($rows, "
                "8); build them from the coordinates given."
            ),
        },
    )


def test_profiles_and_coarser_grids() -> None:
    refuse(
        da.GridError,
        {
            'grid.profile("q", np.arange(9))': (
                "Axis 'q' is none of this grid's; use 0 to 1 or one of x, y."
            ),
            "grid.profile(2, np.arange(9))": (
                "Axis 2 is none of this grid's; use 0 to 1 or one of x, y."
            ),
            "grid.profile(True, np.arange(9))": (
                "Axis True is none of this grid's; use 0 to 1 or one of x, y."
            ),
            "grid.profile(0, np.arange(7))": (
                "A profile along axis x needs 9 or 10 values, got shape (7,); give one per "
                "cell or point."
            ),
            "periodic.profile(0, np.arange(10))": (
                "A profile along axis x needs 9 values, got shape (10,); give one per cell "
                "or point."
            ),
            "grid.profile(0, np.zeros((9, 2)))": (
                "A profile along axis x needs 9 or 10 values, got shape (9, 2); give one per "
                "cell or point."
            ),
            "grid.profile(0, lambda x: x[:2])": (
                "A profile along axis x needs 9 or 10 values, got shape (2,); give one per "
                "cell or point."
            ),
            "grid.profile(1, lambda x, y: y)": (
                "The function of profile is called as f(y), but it takes 2 arguments (x, y); let "
                "it take these."
            ),
            'grid.profile(0, "abc")': (
                "Values of a profile along axis x must be numbers of at most 64 bits or "
                "arrays of them, got 'abc'; convert what you give."
            ),
            "grid.profile(0, None)": (
                "Values of a profile along axis x must be numbers of at most 64 bits or "
                "arrays of them, got None; convert what you give."
            ),
            "grid.profile(0, np.arange(9), halo=-1)": (
                "Halo widths must be whole numbers from 0, got halo=-1; use 0 for none."
            ),
            "grid.coarsen(0)": (
                "Factors of coarsen must be at least 1, got 0; use 2 to halve every axis."
            ),
        },
    )
    refuse(
        da.DecompositionError,
        {
            'grid.profile(0, np.arange(9), halo="a")': (
                "halo must be whole numbers, one or one per axis, not 'a'; correct it."
            ),
            "grid.coarsen(2.5)": (
                "factor must be whole numbers, one or one per axis, not 2.5; correct it."
            ),
            "grid.coarsen(None)": (
                "factor must be whole numbers, one or one per axis, not None; correct it."
            ),
            "grid.coarsen((2,))": "factor has 1 values for 2 axes; give one value or one per axis.",
            "grid.coarsen(2, ranks=(SIZE + 1, 1))": (
                "The process grid ($more, 1) does not fit the $size ranks of the "
                "communicator; use whole numbers whose product is not larger, or 0 for a "
                "free axis."
            ),
            'grid.coarsen(2, ranks="ab")': (
                "ranks must be whole numbers, one or one per axis, not 'ab'; correct it."
            ),
            "grid.coarsen(2, ranks=SIZE + 1)": (
                "The process grid ($more, $more) does not fit the $size ranks of the "
                "communicator; use whole numbers whose product is not larger, or 0 for a "
                "free axis."
            ),
            "grid.coarsen(2, ranks=(-1, 1))": (
                "The process grid (-1, 1) does not fit the $size ranks of the communicator; "
                "use whole numbers whose product is not larger, or 0 for a free axis."
            ),
        },
    )


def test_points() -> None:
    refuse(
        da.ArrayError,
        {
            "grid.points(3)": (
                "Coordinates of points must have shape (points, 2), got (); give one row per point."
            ),
            'grid.points("abc")': (
                "Coordinates of points must be numbers of at most 64 bits or arrays of them, "
                "got 'abc'; convert what you give."
            ),
            "grid.points(None)": (
                "Coordinates of points must be numbers of at most 64 bits or arrays of them, "
                "got None; convert what you give."
            ),
            "grid.points([[0.5, 0.5, 0.5]])": (
                "Coordinates of points must have shape (points, 2), got (1, 3); give one row "
                "per point."
            ),
            "grid.points([[0.5, 2.0]])": (
                "Point 0 lies at y = 2.0, outside the domain from 0.0 to 1.0; leave it out "
                "or make the axis periodic."
            ),
            'grid.points([[0.5, 0.5], [0.5, float("nan")]])': (
                "Point 1 lies at y = nan, outside the domain from 0.0 to 1.0; leave it out "
                "or make the axis periodic."
            ),
            'periodic.points([[0.5, float("nan")]])': (
                "Point 0 lies at y = nan, outside the domain from 0.0 to 1.0; leave it out."
            ),
            'periodic.points([[float("inf"), 0.5]])': (
                "Point 0 lies at x = inf, outside the domain from 0.0 to 1.0; leave it out."
            ),
            "grid.points([[1j, 0.5]])": (
                "Coordinates of points are complex and do not fit float64; take their real part."
            ),
            "somewhere.sample(v)": (
                "$v lies on another grid than these points; use grid.points of its grid."
            ),
            "somewhere.sample(plain)": (
                "$plain lies on another grid than these points; use grid.points of its grid."
            ),
            "somewhere.sample(3)": "Points take arrays of their grid, got 3; create one on it.",
            "somewhere.sample(u, order=2)": (
                "order=2 of points is not known; use 0 (nearest) or 1 (linear)."
            ),
            "somewhere.sample(u, order=np.array([0, 1]))": (
                "order=an array of int64 of points is not known; use 0 (nearest) or 1 (linear)."
            ),
            'somewhere.sample(u, order="linear")': (
                "order='linear' of points is not known; use 0 (nearest) or 1 (linear)."
            ),
            "somewhere.add(u, [1.0, 2.0])": (
                "Values of shape (2,) do not broadcast to components and points, (1,); give "
                "one per point."
            ),
            "somewhere.add(u, 1j)": (
                "Values added to $u are complex and do not fit float64; take their real part."
            ),
            'somewhere.add(u, "a")': (
                "Values added to $u must be numbers of at most 64 bits or arrays of them, "
                "got 'a'; convert what you give."
            ),
            "somewhere.add(u, None)": (
                "Values added to $u must be numbers of at most 64 bits or arrays of them, "
                "got None; convert what you give."
            ),
            "somewhere.add(vector, np.zeros((2, 1)))": (
                "Values of shape (2, 1) do not broadcast to components and points, (3, 1); "
                "give one per point."
            ),
        },
    )


def test_random_fields() -> None:
    refuse(
        da.GridError,
        {
            "da.random.uniform(3, 1)": "A random field needs a Grid, got 3; pass one first.",
        },
    )
    refuse(
        da.ArrayError,
        {
            "da.random.uniform(grid, -1)": (
                "seed of a random field must be a whole number from 0 to 2**64 - 1, got -1; "
                "choose one."
            ),
            "da.random.uniform(grid, 1.5)": (
                "seed of a random field must be a whole number from 0 to 2**64 - 1, got 1.5; "
                "choose one."
            ),
            "da.random.uniform(grid, 2**64)": (
                "seed of a random field must be a whole number from 0 to 2**64 - 1, got "
                "18446744073709551616; choose one."
            ),
            "da.random.uniform(grid, 1, stream=-1)": (
                "stream of a random field must be a whole number from 0 to 2**64 - 1, got "
                "-1; choose one."
            ),
            'da.random.uniform(grid, 1, low="a")': (
                "low of a random field must be a finite number, got 'a'; choose one."
            ),
            "da.random.uniform(grid, 1, low=2, high=1)": (
                "low=2.0 of a random field exceeds high=1.0; exchange them."
            ),
            'da.random.uniform(grid, 1, high=float("nan"))': (
                "high of a random field must be a finite number, got nan; choose one."
            ),
            "da.random.normal(grid, 1, std=-1)": "std=-1.0 of a random field is negative; use 1.0.",
            "da.random.normal(grid, 1, mean=1j)": (
                "mean of a random field must be a finite number, got 1j; choose one."
            ),
            "da.random.normal(grid, None)": (
                "seed of a random field must be a whole number from 0 to 2**64 - 1, got "
                "None; choose one."
            ),
        },
    )
    refuse(
        da.UnsupportedError,
        {
            "da.random.uniform(grid, 1, dtype=int)": (
                "Random fields are float32 or float64, got dtype=int64; convert with astype()."
            ),
            "da.random.uniform(grid, 1, dtype=np.float16)": (
                "Element type <class 'numpy.float16'> is not supported; use bool, an integer "
                "type, float32, float64, complex64 or complex128."
            ),
        },
    )
