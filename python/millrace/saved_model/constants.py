"""Names inside a SavedModel's folder and collections."""
ASSETS_DIRECTORY, ASSETS_KEY = "assets", "saved_model_assets"
EXTRA_ASSETS_DIRECTORY = "assets.extra"
LEGACY_INIT_OP_KEY, MAIN_OP_KEY, TRAIN_OP_KEY = "legacy_init_op", "saved_model_main_op", "saved_model_train_op"
INIT_OP_SIGNATURE_KEY, TRAIN_OP_SIGNATURE_KEY = "__saved_model_init_op", "__saved_model_train_op"
SAVED_MODEL_SCHEMA_VERSION = 1
SAVED_MODEL_FILENAME_PB, SAVED_MODEL_FILENAME_PBTXT = "saved_model.pb", "saved_model.pbtxt"
VARIABLES_DIRECTORY, VARIABLES_FILENAME = "variables", "variables"
DEBUG_DIRECTORY = "debug"
