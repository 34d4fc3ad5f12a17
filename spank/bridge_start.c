/* SPDX-License-Identifier: Apache-2.0
 *
 * Python inside srun, sbatch and salloc, for the one question. cffi would start it by Py_InitializeEx, which takes
 * PATH, PYTHONPATH and PYTHONHOME from whoever called; here it is started isolated, with stepguard's own venv, and
 * cffi then finds it running.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "bridge.h"

#define VENV STEPGUARD_PREFIX "/venv"
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static int fail(struct stepguard_answer *answer, const char *what, const char *why)
{
	snprintf(answer->text, sizeof(answer->text), "%s: %s", what, why);
	return -1;
}

/* The message of the Python exception that is set, in place of a traceback. */
static int fail_by_exception(struct stepguard_answer *answer, const char *what)
{
	PyObject *type, *value, *traceback;
	PyObject *message;
	const char *text;

	PyErr_Fetch(&type, &value, &traceback);
	message = value ? PyObject_Str(value) : NULL;
	text = message ? PyUnicode_AsUTF8(message) : NULL;
	fail(answer, what, text ? text : "no reason given");
	PyErr_Clear();
	Py_XDECREF(message);
	Py_XDECREF(type);
	Py_XDECREF(value);
	Py_XDECREF(traceback);
	return -1;
}

static PyStatus initialize(void)
{
	PyPreConfig early;
	PyConfig config;
	PyStatus status;

	PyPreConfig_InitIsolatedConfig(&early);
	early.utf8_mode = 1;
	status = Py_PreInitialize(&early);
	if (PyStatus_Exception(status))
		return status;
	PyConfig_InitIsolatedConfig(&config);
	config.install_signal_handlers = 0;
	config.write_bytecode = 0;
	/* The site module would only add the venv's packages (done below) and run their .pth files. */
	config.site_import = 0;
	status = PyConfig_SetBytesString(&config, &config.program_name, VENV "/bin/python");
	if (!PyStatus_Exception(status))
		status = PyConfig_SetBytesString(&config, &config.executable, VENV "/bin/python");
	if (!PyStatus_Exception(status))
		status = Py_InitializeFromConfig(&config);
	PyConfig_Clear(&config);
	return status;
}

static int add_packages(struct stepguard_answer *answer)
{
	PyObject *path = PySys_GetObject("path");
	PyObject *packages = PyUnicode_FromString(STEPGUARD_PREFIX STEPGUARD_PACKAGES);
	int rc = path && packages ? PyList_Append(path, packages) : -1;

	Py_XDECREF(packages);
	return rc == 0 ? 0 : fail_by_exception(answer, "cannot extend sys.path");
}

/* Imported here, because cffi prints a traceback and goes on when it cannot. */
static int import(struct stepguard_answer *answer, const char *name)
{
	PyObject *module = PyImport_ImportModule(name);

	if (!module)
		return fail_by_exception(answer, "cannot import stepguard from " VENV);
	Py_DECREF(module);
	return 0;
}

static int start(struct stepguard_answer *answer)
{
	if (Py_IsInitialized())
		return fail(answer, "cannot start Python", "another plugin runs it in this process");
	if (access(VENV "/pyvenv.cfg", R_OK) != 0 || access(VENV "/bin/python", X_OK) != 0)
		return fail(answer, "no Python", VENV);
	/* Extension modules take libpython's symbols from the process (since CPython 3.8 they do not link it), and Slurm
	 * loads plugins RTLD_LOCAL. NOLOAD: only the one that this library brought. */
	if (!dlopen(STEPGUARD_LIBPYTHON, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD))
		return fail(answer, "cannot share " STEPGUARD_LIBPYTHON, dlerror());
	if (strncmp(Py_GetVersion(), STEPGUARD_PYTHON ".", strlen(STEPGUARD_PYTHON ".")) != 0)
		return fail(answer, "built for Python " STEPGUARD_PYTHON ", found", Py_GetVersion());
	PyStatus status = initialize();

	if (PyStatus_Exception(status))
		return fail(answer, "cannot start Python", status.err_msg ? status.err_msg : "it ended at once");
	int rc = add_packages(answer);

	if (rc == 0)
		rc = import(answer, "_cffi_backend");
	if (rc == 0)
		rc = import(answer, "stepguard.bridge");
	PyEval_SaveThread();
	return rc;
}

__attribute__((visibility("default"))) stepguard_ask_f STEPGUARD_ASK;

int STEPGUARD_ASK(const struct stepguard_question *question, struct stepguard_answer *answer)
{
	/* A module that imports `signal` installs Python's handler for SIGINT, whatever PyConfig says. */
	static const int numbers[] = { SIGINT, SIGPIPE, SIGXFSZ };
	struct sigaction before[LENGTH(numbers)];
	int decision = STEPGUARD_BROKEN;

	for (size_t i = 0; i < LENGTH(numbers); i++)
		sigaction(numbers[i], NULL, &before[i]);
	if (start(answer) == 0) {
		decision = stepguard_decide(question, answer);
		if (decision == STEPGUARD_BROKEN && !answer->text[0])
			fail(answer, "the bridge failed", "see the message above");
	}
	for (size_t i = 0; i < LENGTH(numbers); i++)
		sigaction(numbers[i], &before[i], NULL);
	return decision;
}
