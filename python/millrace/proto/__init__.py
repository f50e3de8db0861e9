"""Protocol messages created at run time from the library's descriptors.

millrace.protos has their names.

    installed   google.protobuf's base classes, where it is installed
    wire        bytes: varints, tags, packed arrays
    scalars     values: what may be assigned, how it is written
    fields      one field of a message: its description, its property, its bytes
    containers  repeated fields and maps
    message     messages
    enums       enums
    schema      classes by name
    text_format, json_format
"""
