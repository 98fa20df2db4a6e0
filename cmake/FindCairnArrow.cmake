# SPDX-License-Identifier: Apache-2.0
#
# Targets cairn_arrow and cairn_parquet: Arrow C++ from find_package, else the official build that
# the pyarrow wheel carries (CAIRN_PYARROW names its folder; ./dev sets it).

find_package(Arrow QUIET CONFIG)
if(Arrow_FOUND AND NOT CAIRN_PYARROW)
  find_package(Parquet REQUIRED CONFIG)
  find_package(ArrowCompute QUIET CONFIG)
  add_library(cairn_arrow INTERFACE)
  target_link_libraries(cairn_arrow INTERFACE Arrow::arrow_shared)
  if(TARGET ArrowCompute::arrow_compute_shared)
    target_link_libraries(cairn_arrow INTERFACE ArrowCompute::arrow_compute_shared)
  endif()
  add_library(cairn_parquet INTERFACE)
  target_link_libraries(cairn_parquet INTERFACE Parquet::parquet_shared)
else()
  if(NOT EXISTS "${CAIRN_PYARROW}/include/arrow/api.h")
    message(FATAL_ERROR "Arrow C++ not found. Install it, or give -DCAIRN_PYARROW=DIR of a pyarrow "
                        "wheel (./dev build does this for you).")
  endif()
  file(GLOB arrow_library "${CAIRN_PYARROW}/libarrow.so.*")
  file(GLOB compute_library "${CAIRN_PYARROW}/libarrow_compute.so.*")
  file(GLOB parquet_library "${CAIRN_PYARROW}/libparquet.so.*")
  add_library(cairn_arrow INTERFACE)
  target_include_directories(cairn_arrow SYSTEM INTERFACE ${CAIRN_PYARROW}/include)
  target_link_libraries(cairn_arrow INTERFACE ${arrow_library} ${compute_library})
  target_link_options(cairn_arrow INTERFACE -Wl,-rpath,${CAIRN_PYARROW}
                      -Wl,--disable-new-dtags)
  add_library(cairn_parquet INTERFACE)
  target_link_libraries(cairn_parquet INTERFACE ${parquet_library} cairn_arrow)
endif()
