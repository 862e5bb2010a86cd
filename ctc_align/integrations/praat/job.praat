# Run the program ctc-align: @newJob, then @argument for each of its arguments, then @run.
#
# The arguments go into a file, because quotes, spaces and letters of all languages reach the
# program unchanged only there. The program writes output.txt (its data), messages.txt and, at the
# end, exit.txt (its exit code) into the folder of the job.

include command.praat

procedure newJob
	createDirectory: ctc_align_folder$ + "/jobs"
	job_number$ = string$ (randomInteger (100000000, 999999999))
	job_folder$ = ctc_align_folder$ + "/jobs/" + job_number$
	createDirectory: job_folder$
	job_lines$ = ""
	paint_sound = 0
	selected_objects = numberOfSelected ()
	for .i to selected_objects
		selected_object [.i] = selected (.i)
	endfor
endproc

# A line of job.txt: its kind and its values. The program runs in the folder of the job.
procedure jobLine: .kind$, .value$
	job_lines$ = job_lines$ + .kind$ + tab$ + .value$ + newline$
endproc

procedure argument: .value$
	@jobLine: "argument", .value$
endproc

procedure option: .name$, .value$
	if .value$ <> ""
		@argument: .name$
		@argument: .value$
	endif
endproc

# --tiers and --phones, from the fields that the forms share.
procedure tierOptions
	.tiers$ = ""
	if words
		.tiers$ = .tiers$ + ",words"
	endif
	if phones
		.tiers$ = .tiers$ + ",phones"
	endif
	if syllables
		.tiers$ = .tiers$ + ",syllables"
	endif
	if sentences
		.tiers$ = .tiers$ + ",sentences"
	endif
	if .tiers$ = ""
		exitScript: "Choose at least one tier."
	endif
	@option: "--tiers", mid$ (.tiers$, 2, length (.tiers$))
	if labels_of_phones > 1
		@option: "--phones", labels_of_phones$
	endif
	@option: "--language", language$
endproc

# An absolute path; ~ is the home folder.
procedure fullPath: .path$
	.result$ = .path$
	if startsWith (.path$, "~/")
		.result$ = homeDirectory$ + mid$ (.path$, 2, length (.path$))
	endif
endproc

# Run the job and wait; .what$ is shown with the seconds that have passed.
procedure run: .what$
	writeFile: job_folder$ + "/job.txt", job_lines$
	runSystem_nocheck: ctc_align_command$, job_number$, ctc_align_command_end$
	if not fileReadable (job_folder$ + "/started.txt")
		exitScript: "ctc-align does not start. Install the plug-in again: ctc-align praat install"
	endif
	.seconds = 0
	.shown = 2
	while not fileReadable (job_folder$ + "/exit.txt")
		sleep (0.1)
		.seconds = .seconds + 0.1
		if .seconds >= .shown
			.shown = .shown + 5
			@showProgress: "ctc-align: " + .what$ + ": running for " + string$ (round (.seconds)) + " seconds ..."
		endif
	endwhile
	if paint_sound
		removeObject: paint_sound
	endif
	for .i to selected_objects
		if .i = 1
			selectObject: selected_object [1]
		else
			plusObject: selected_object [.i]
		endif
	endfor
	.code = readFile (job_folder$ + "/exit.txt")
	messages$ = readFile$ (job_folder$ + "/messages.txt")
	output$ = readFile$ (job_folder$ + "/output.txt")
endproc

# Show a line in the Info window. While a script runs, Praat for Linux paints its windows only in
# commands that report their progress: one frame of formants is such a command, and takes a
# millisecond. Writing the line again closes the window of that report.
procedure showProgress: .line$
	if not paint_sound
		paint_sound = Create Sound from formula: "ctc_align_is_running", 1, 0, 0.03, 8000, "sin(700*x)"
	endif
	writeInfoLine: .line$
	selectObject: paint_sound
	.formants = To Formant (burg): 0, 1, 4000, 0.014, 50
	removeObject: .formants
	writeInfoLine: .line$
endproc

# File choosers begin in the home folder, not in that of the plug-in.
procedure chooseFile: .title$
	nocheck setWorkingDirectory: homeDirectory$
	.path$ = chooseReadFile$: .title$
endproc

# End with a dialog if the program wrote no result; its one line says what is wrong.
procedure requireResult
	if run.code <> 0 and run.code <> 3
		.error$ = extractLine$ (messages$, "ctc-align: error: ")
		if .error$ = ""
			.error$ = messages$
		endif
		exitScript: "ctc-align: ", .error$
	endif
endproc

# The Sound or LongSound, as NAME.wav in the folder of the job. Times of the file begin at 0.
procedure saveSound
	sound = 0
	if numberOfSelected ("LongSound") = 1
		sound = selected ("LongSound")
		sound_name$ = selected$ ("LongSound")
	elsif numberOfSelected ("Sound") = 1
		sound = selected ("Sound")
		sound_name$ = selected$ ("Sound")
	else
		exitScript: "Select one Sound."
	endif
	if numberOfSelected ("TextGrid") = 1
		textgrid = selected ("TextGrid")
	endif
	selectObject: sound
	sound_start = Get start time
	sound_end = Get end time
	sound_seconds$ = fixed$ (sound_end - sound_start, 1)
	nowarn Save as WAV file: job_folder$ + "/" + sound_name$ + ".wav"
	alignment_folder$ = ctc_align_folder$ + "/alignments/" + sound_name$ + "_" + fixed$ (sound_end - sound_start, 4)
	# one folder for each alignment of the sound: they may be of different texts
	kept_folder$ = alignment_folder$ + "/" + job_number$
endproc

# The TextGrid (or one of its tiers) in the folder of the job, with times from 0.
procedure saveTextGrid: .tier$, .file$
	selectObject: textgrid
	.copy = 0
	if .tier$ <> ""
		.number = 0
		.tiers = Get number of tiers
		for .i to .tiers
			.name$ = Get tier name: .i
			if .name$ = .tier$
				.number = .i
			endif
		endfor
		if .number = 0
			exitScript: "The TextGrid has no tier “", .tier$, "”."
		endif
		.copy = Extract one tier: .number
	else
		.copy = Copy: "ctc_align"
	endif
	Shift times by: -sound_start
	Save as text file: job_folder$ + "/" + .file$
	removeObject: .copy
endproc

# Put the new TextGrid into the list, select it with the Sound, and show what the program said.
procedure readTextGrid
	textgrid = Read from file: kept_folder$ + "/" + sound_name$ + ".TextGrid"
	Shift times by: sound_start
	Rename: sound_name$
	deleteFile: job_folder$ + "/" + sound_name$ + ".wav"
	# the last line names files of the job
	writeInfo: left$ (messages$, rindex (messages$, "wrote ") - 1)
	selectObject: sound, textgrid
endproc
