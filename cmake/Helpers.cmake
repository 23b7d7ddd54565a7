# Compiles SOURCES of TARGET in groups of a dozen of one folder: most of the time of a cold build is headers that all of them read.
function(recollect_unity TARGET)
  set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(source IN LISTS ARGN)
    if(IS_ABSOLUTE ${source})
      continue()  # generated
    endif()
    cmake_path(GET source PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "group_${folder}" group)
    list(APPEND members_${group} ${source})
    list(LENGTH members_${group} count)
    math(EXPR part "(${count} - 1) / 12")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group}_${part})
  endforeach()
  # GCC takes the unnamed namespaces of a file that is included for those of a header.
  target_compile_options(${TARGET} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endfunction()

# recollect_library(NAME kernels SOURCES a.cc … DEPS recollect::base absl::status …)
# One static library per folder, alias recollect::NAME, headers included from the project's root as "kernels/gemm/gemm.h".
# With RECOLLECT_UNITY the sources of one folder are compiled a dozen at a time, unless the library is one of SEPARATE sources.
function(recollect_library)
  cmake_parse_arguments(ARG "SEPARATE" "NAME" "SOURCES;DEPS" ${ARGN})
  add_library(recollect_${ARG_NAME} STATIC ${ARG_SOURCES})
  if(RECOLLECT_UNITY AND NOT ARG_SEPARATE)
    recollect_unity(recollect_${ARG_NAME} ${ARG_SOURCES})
  endif()
  add_library(recollect::${ARG_NAME} ALIAS recollect_${ARG_NAME})
  target_include_directories(recollect_${ARG_NAME} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(recollect_${ARG_NAME} PUBLIC ${ARG_DEPS} PRIVATE recollect_options)
endfunction()

# The headers that most tests read, compiled once for all tests with the same flags: half of what a test's compilation takes.
function(recollect_test_headers TARGET)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/test_headers.cc CONTENT "")
  add_library(${TARGET} OBJECT ${CMAKE_BINARY_DIR}/test_headers.cc)
  target_precompile_headers(${TARGET} PRIVATE <algorithm> <atomic> <filesystem> <functional> <map> <memory> <random> <set> <string>
    <thread> <vector> <gmock/gmock.h> <gtest/gtest.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/time/time.h> <nlohmann/json.hpp>)
  target_link_libraries(${TARGET} PRIVATE GTest::gmock absl::statusor absl::strings absl::time nlohmann_json::nlohmann_json recollect_options)
endfunction()

# A test runs once for each time it is compiled: optimising it costs more than it saves. Test code has the address sanitizer alone: the
# one for undefined behaviour would double its compile time. OpenMP and -pthread, which some libraries bring, go to all: a precompiled
# header serves equal flags only. A library of tests that computes much is optimised: recollect_test_flags(TARGET -O1).
function(recollect_test_flags TARGET)
  set(level -O0)
  if(ARGN)
    set(level ${ARGN})
  endif()
  target_link_libraries(${TARGET} PRIVATE OpenMP::OpenMP_CXX)
  target_compile_options(${TARGET} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${level} -pthread>)
  if(RECOLLECT_SANITIZE)
    target_compile_options(${TARGET} PRIVATE -fno-sanitize=undefined)
  endif()
endfunction()

# Compiles a test, or what tests share, with these flags and headers.
function(recollect_test_support TARGET)
  recollect_test_flags(${TARGET})
  if(NOT TARGET recollect_test_headers)
    recollect_test_headers(recollect_test_headers)
    recollect_test_flags(recollect_test_headers)
  endif()
  target_link_libraries(${TARGET} PRIVATE GTest::gmock)
  target_precompile_headers(${TARGET} REUSE_FROM recollect_test_headers)
endfunction()

# The same for tests of kernels/: they compile the thread blocks of the CUDA operations from headers, which need the optimiser and both
# sanitizers.
function(recollect_kernels_test_flags TARGET)
  target_link_libraries(${TARGET} PRIVATE OpenMP::OpenMP_CXX)
  target_compile_options(${TARGET} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-pthread $<$<CONFIG:Release>:-O1>>)
endfunction()
function(recollect_kernels_test_support TARGET)
  recollect_kernels_test_flags(${TARGET})
  if(NOT TARGET recollect_kernels_test_headers)
    recollect_test_headers(recollect_kernels_test_headers)
    recollect_kernels_test_flags(recollect_kernels_test_headers)
  endif()
  target_precompile_headers(${TARGET} REUSE_FROM recollect_kernels_test_headers)
endfunction()

function(recollect_test_linker TARGET)
  if(RECOLLECT_LLD)
    target_link_options(${TARGET} PRIVATE -fuse-ld=lld)
  endif()
endfunction()

# Sets OUT to whether a test is for the sanitizers alone: tests/CMakeLists.txt says which are.
function(recollect_leave_to_sanitizers NAME SOURCE LABELS OUT)
  cmake_path(ABSOLUTE_PATH SOURCE NORMALIZE)
  cmake_path(RELATIVE_PATH SOURCE BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/tests)
  set(${OUT} OFF PARENT_SCOPE)
  if(RECOLLECT_LEAVE_TO_SANITIZERS AND LABELS STREQUAL fast AND SOURCE MATCHES ${left_to_sanitizers} AND NOT NAME IN_LIST tests_of_both_builds)
    set(${OUT} ON PARENT_SCOPE)
  endif()
endfunction()

# recollect_test(NAME gemm_test SOURCES gemm_test.cc DEPS recollect::kernels [LABELS fast] [TIMEOUT seconds] [PREFIX Cuda])
# LABELS is one of fast (default), slow, gpu, e2e; those of threaded_tests (tests/CMakeLists.txt) become fast-threaded. Every TEST is a ctest test of its own,
# except under the address sanitizer.
function(recollect_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT;PREFIX" "SOURCES;DEPS;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS fast)
  endif()
  if(RECOLLECT_SANITIZE)
    list(REMOVE_ITEM ARG_SOURCES ${sources_left_out_under_sanitizers})
  endif()
  if(NOT ARG_SOURCES)
    return()
  endif()
  list(GET ARG_SOURCES 0 source)
  recollect_leave_to_sanitizers(${ARG_NAME} ${source} ${ARG_LABELS} left)
  if(left)
    return()
  endif()
  if(ARG_NAME IN_LIST threaded_tests)
    string(APPEND ARG_LABELS -threaded)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  list(LENGTH ARG_SOURCES sources)
  if(RECOLLECT_UNITY AND sources GREATER 3)
    recollect_unity(${ARG_NAME} ${ARG_SOURCES})
  endif()
  target_include_directories(${ARG_NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${ARG_NAME} PRIVATE RECOLLECT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/tests/kernels$")
    recollect_kernels_test_support(${ARG_NAME})
  else()
    recollect_test_support(${ARG_NAME})
  endif()
  recollect_test_linker(${ARG_NAME})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} recollect_own_temp_dir GTest::gmock GTest::gtest_main recollect_options)
  # The longest start first.
  set(cost 0)
  if(ARG_LABELS MATCHES slow)
    set(cost 100)
  elseif(ARG_NAME MATCHES "^(engine|http|model_device|rocks|service)_")
    set(cost 10)
  endif()
  # Under the address sanitizer a start takes as long as most tests: those of a program run in one process.
  if(RECOLLECT_SANITIZE MATCHES address)
    list(JOIN left_out_under_sanitizers ":" left_out)
    add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME} --gtest_filter=-${left_out})
    set_tests_properties(${ARG_NAME} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 1200 COST ${cost} ENVIRONMENT "${ARG_ENVIRONMENT}")
    return()
  endif()
  # Names as tests gave them: values that have no printer would come as their bytes, other ones each time.
  gtest_discover_tests(${ARG_NAME} DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES TEST_PREFIX "${ARG_PREFIX}"
    PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} COST ${cost} ENVIRONMENT "${ARG_ENVIRONMENT}")
endfunction()

# recollect_test_on_cuda(NAME golden_cuda_test SOURCES golden_test.cc DEPS recollect::model)
# The same sources again, for a GPU: those of their tests that take a device (tests/kernels/device/test_device.h).
function(recollect_test_on_cuda)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPS" ${ARGN})
  recollect_test(NAME ${ARG_NAME} SOURCES ${ARG_SOURCES} ${PROJECT_SOURCE_DIR}/tests/kernels/cuda/cuda_test_main.cc
    DEPS ${ARG_DEPS} recollect::device_cuda PREFIX Cuda LABELS gpu TIMEOUT 300)
  target_compile_definitions(${ARG_NAME} PRIVATE RECOLLECT_TEST_ON_CUDA)
endfunction()

# recollect_bench(NAME gemm_bench SOURCES gemm_bench.cc DEPS recollect::kernels [REQUIRED --size 1])
# REQUIRED: flags without which it does not run.
function(recollect_bench)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPS;REQUIRED" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_include_directories(${ARG_NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} CLI11::CLI11 recollect_options)
  # With what it requires: it would miss that first.
  add_test(NAME bench.${ARG_NAME}_refuses_unknown_flags COMMAND ${ARG_NAME} --nowhere ${ARG_REQUIRED})
  set_tests_properties(bench.${ARG_NAME}_refuses_unknown_flags PROPERTIES LABELS fast
    PASS_REGULAR_EXPRESSION "not expected:[^\n]*--nowhere")
endfunction()
