# Two Debian packages (docs/contributing.md): `cpack --config build/release/CPackConfig.cmake`, or `make
# packages`, puts them in build/release/packages.
set(MOEPACK_MAINTAINER "The moepack project <moepack@localhost>" CACHE STRING
  "name and address in the field Maintainer of the packages")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME moepack)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${MOEPACK_MAINTAINER})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL moepack)

set(CPACK_DEBIAN_MOEPACK_PACKAGE_NAME moepack)
set(CPACK_DEBIAN_MOEPACK_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_MOEPACK_PACKAGE_SHLIBDEPS ON)
# Libraries opened when a command needs them, so shlibdeps does not see them: for remote sources and
# registries, their certificates, and Vulkan.
set(CPACK_DEBIAN_MOEPACK_PACKAGE_RECOMMENDS "libcurl4, ca-certificates, libvulkan1")
set(CPACK_COMPONENT_MOEPACK_DESCRIPTION
"repackages Mixture-of-Experts checkpoints for several machines
Splits the experts of a model over nodes that each hold the trunk and one group,
converts and quantizes to GGUF on the way, and proves the result.")

if(NOT MOEPACK_SHARED_RUNTIME)
  list(APPEND CPACK_COMPONENTS_ALL runtime)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libmoepack-runtime-dev)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libdevel)
  # What moepack.pc and moepack-config.cmake name.
  string(REGEX MATCH "^[0-9]+" compiler ${CMAKE_CXX_COMPILER_VERSION})
  set(standard_library libstdc++-dev)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    set(standard_library "libstdc++-${compiler}-dev | libstdc++-dev")
  endif()
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS
    "libsentencepiece-dev, libhwy-dev, libpcre2-dev, libxxhash-dev, libzstd-dev, libssl-dev, ${standard_library}")
  set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
"runs one node of a split Mixture-of-Experts model (archive and C header)
For programs that score a prompt for every group or compare a node with the model.")
endif()
include(CPack)
