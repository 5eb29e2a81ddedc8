-- Lmod: module use FOLDER/modulefiles; module load occatrace
help([[occa_prof shows where the time of OCCA, CUDA, HIP, OpenCL, OpenMP and MPI programs goes: occa_prof ./a.out]])
whatis("Name: occatrace")
whatis("Description: tracing profiler for OCCA, CUDA, HIP, OpenCL, OpenMP and MPI programs")
local root = pathJoin(myFileName():match("(.*)/modulefiles/"), "")
prepend_path("PATH", pathJoin(root, "bin"))
prepend_path("MANPATH", pathJoin(root, "share/man"))
prepend_path("CPATH", pathJoin(root, "include"))
