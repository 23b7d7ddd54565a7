# Language, warnings and sanitizers for every target of ours.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
# Compute capabilities 8.0 and 9.0, and PTX that later ones compile when they load it.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 90-virtual)
endif()
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_program(RECOLLECT_CCACHE ccache)
if(RECOLLECT_CCACHE)
  # What ccache otherwise does not keep: objects that read a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${RECOLLECT_CCACHE})
endif()

# Fused multiply-adds only where a kernel writes them: the compiler must not choose them per call site,
# or the same row could round differently in two loops (docs/numerics.md).
add_library(recollect_options INTERFACE)
target_compile_options(recollect_options INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wshadow -ffp-contract=off $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety> $<$<BOOL:${RECOLLECT_WERROR}>:-Werror>>)
# Links tests in a fifth of the time. Programs that users run have the default linker.
find_program(RECOLLECT_LLD ld.lld)
# The presets of sanitizers optimise little and keep line tables alone: at -O2 -g most of a cold test run is their compiler. Without
# NDEBUG, so that DCHECKs and the library's own checks of bounds run.
if(RECOLLECT_SANITIZE)
  add_compile_options(-fsanitize=${RECOLLECT_SANITIZE} -fno-omit-frame-pointer -g1 -D_GLIBCXX_ASSERTIONS)
  add_link_options(-fsanitize=${RECOLLECT_SANITIZE})
  # A finding ends the program anyway: code that cannot go on after one compiles in three quarters of the time.
  if(RECOLLECT_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=undefined)
    if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
      add_compile_options(-fsanitize-ignorelist=${PROJECT_SOURCE_DIR}/tests/support/ubsan.txt)
    endif()
  endif()
endif()
# `cpack` packs what is built instead of building every test first.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
