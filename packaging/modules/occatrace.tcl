#%Module
# Environment Modules: module use FOLDER/modulefiles; module load occatrace
proc ModulesHelp {} {
    puts stderr "occa_prof shows where the time of OCCA, CUDA, HIP, OpenCL, OpenMP and MPI programs goes: occa_prof ./a.out"
}
module-whatis "occatrace: tracing profiler for OCCA, CUDA, HIP, OpenCL, OpenMP and MPI programs"
set root [file dirname [file dirname [file dirname $ModulesCurrentModulefile]]]
prepend-path PATH $root/bin
prepend-path MANPATH $root/share/man
prepend-path CPATH $root/include
