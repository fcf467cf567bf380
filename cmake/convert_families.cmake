# Each file below src/convert/families defines add_<file name>(); family.cc calls all of them through this list, so that
# a new family is one new file.
file(GLOB CORTIQ_FAMILY_FILES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/convert/families/*.cc)
set(CORTIQ_FAMILY_LIST "")
foreach(file ${CORTIQ_FAMILY_FILES})
  get_filename_component(family ${file} NAME_WE)
  string(APPEND CORTIQ_FAMILY_LIST "FAMILY(${family})\n")
endforeach()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/convert/families.inc CONTENT "@CORTIQ_FAMILY_LIST@" @ONLY)
