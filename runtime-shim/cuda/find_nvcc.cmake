# Adds the language CUDA, or sets MOEPACK_CUDA_MISSING to the reason why this build lacks it. Its
# kernels take minutes to compile: by default only a machine that can run them builds them.
if(EXISTS /dev/nvidiactl)
  set(device_there ON)
else()
  set(device_there OFF)
endif()
option(MOEPACK_CUDA "build the CUDA executor; default: where an NVIDIA device is" ${device_there})
set(MOEPACK_CUDA_MISSING "")
if(NOT MOEPACK_CUDA)
  set(MOEPACK_CUDA_MISSING "it was configured with MOEPACK_CUDA=OFF, the default without a device")
  message(NOTICE "-- the CUDA executor is left out; -DMOEPACK_CUDA=ON builds it")
  return()
endif()

find_program(MOEPACK_NVCC nvcc PATHS /usr/local/cuda/bin)
find_program(MOEPACK_GXX g++)  # of the host code in CUDA files, whatever compiles the rest
if(NOT MOEPACK_NVCC OR NOT MOEPACK_GXX)
  set(MOEPACK_CUDA_MISSING "nvcc was not found when configuring")
  message(NOTICE "-- nvcc was not found: the CUDA executor is left out")
  return()
endif()

# Code for Turing, Ampere and Hopper; newer GPUs compile the last one themselves (cuda.cc,
# kLeastMajor).
set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90 CACHE STRING "of the CUDA executor")
set(CMAKE_CUDA_HOST_COMPILER ${MOEPACK_GXX})
set(ENV{CUDACXX} ${MOEPACK_NVCC})
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  set(MOEPACK_CUDA_MISSING "nvcc did not work when configuring")
  message(NOTICE "-- ${MOEPACK_NVCC} does not work: the CUDA executor is left out")
  return()
endif()
enable_language(CUDA)
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 12 has it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.0)
  set(MOEPACK_CUDA_MISSING "nvcc 12.0 or later was not found when configuring")
  message(NOTICE "-- nvcc ${CMAKE_CUDA_COMPILER_VERSION} is too old: the CUDA executor is left out")
endif()

find_package(CUDAToolkit)  # the libraries are opened at run time, but their headers are needed
if(NOT MOEPACK_CUDA_MISSING AND NOT (TARGET CUDA::cublas AND TARGET CUDA::cusolver))
  set(MOEPACK_CUDA_MISSING "cuBLAS and cuSOLVER were not found when configuring")
  message(NOTICE "-- cuBLAS and cuSOLVER were not found: the CUDA executor is left out")
endif()
