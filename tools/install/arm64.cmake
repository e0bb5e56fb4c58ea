# The preset arm64: packages for 64-bit ARM, compiled on another machine (make packages ARCH=arm64).
# The libraries are those that cross_root.sh unpacks.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(MOEPACK_CROSS_ROOT ${CMAKE_CURRENT_LIST_DIR}/../../build/root-arm64)
cmake_path(NORMAL_PATH MOEPACK_CROSS_ROOT)
set(CMAKE_FIND_ROOT_PATH ${MOEPACK_CROSS_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# Debian keeps headers that differ by machine beside the others; the compiler knows that place only
# below its own root.
set(CMAKE_C_FLAGS_INIT "-isystem ${MOEPACK_CROSS_ROOT}/usr/include/aarch64-linux-gnu")
set(CMAKE_CXX_FLAGS_INIT ${CMAKE_C_FLAGS_INIT})
# What libraries need of others is looked for only to see that nothing is missing.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${MOEPACK_CROSS_ROOT}/usr/lib/aarch64-linux-gnu")
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
set(CPACK_PROJECT_CONFIG_FILE ${MOEPACK_CROSS_ROOT}/cpack.cmake)
